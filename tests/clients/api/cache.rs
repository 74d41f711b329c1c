//! A prompt cache as the vendors describe theirs: exact prefixes; entries written at up to four marked blocks and found
//! by looking back twenty blocks from a mark (Messages), or wherever an earlier request reached (Responses).

use std::collections::HashSet;

use agentspine_gate::Digest;
use serde_json::{Value, json};

use super::prefix::{content, item, unmarked};

/// Marks that one request may carry.
pub const MARKS_MAX: usize = 4;
/// Blocks that a mark looks back over.
const LOOK_BACK_BLOCKS: usize = 20;
/// What one token is counted as.
pub const TOKEN_BYTES: usize = 4;

/// What one request read and wrote: bytes of canonical JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read from the cache.
    pub read: usize,
    /// Written to it.
    pub written: usize,
    /// Neither: what stands after the last mark.
    pub fresh: usize,
    /// Marks that the request carries.
    pub marks: usize,
}

/// Every prefix known so far.
#[derive(Default)]
pub struct Cache {
    known: HashSet<String>,
}

struct Block {
    /// Digest of everything up to and including it.
    chain: String,
    /// Size of the same.
    reach: usize,
    marked: bool,
}

impl Cache {
    /// Reads what is known and writes what this request marks.
    pub fn messages(&mut self, body: &Value) -> Usage {
        let blocks = chained(&body["model"], blocks_of(body));
        let marks: Vec<usize> = (0..blocks.len()).filter(|at| blocks[*at].marked).collect();
        let found = marks.iter().rev().find_map(|mark| {
            let back = (mark.saturating_sub(LOOK_BACK_BLOCKS)..=*mark).rev();
            back.map(|at| &blocks[at]).find(|block| self.known.contains(&block.chain))
        });
        let read = found.map_or(0, |block| block.reach);
        let marked = marks.last().map_or(0, |mark| blocks[*mark].reach);
        self.known.extend(marks.iter().map(|mark| blocks[*mark].chain.clone()));
        let all = blocks.last().map_or(0, |block| block.reach);
        Usage { read, written: marked - read, fresh: all - marked, marks: marks.len() }
    }

    /// Reads the longest known beginning and writes the whole.
    pub fn responses(&mut self, body: &Value) -> Usage {
        let items = body["input"].as_array().into_iter().flatten();
        self.whole(body, items.map(|entry| item(entry).to_string()))
    }

    /// The same for a list of messages.
    pub fn chat(&mut self, body: &Value) -> Usage {
        let messages = body["messages"].as_array().into_iter().flatten();
        self.whole(body, messages.map(ToString::to_string))
    }

    fn whole(&mut self, body: &Value, entries: impl Iterator<Item = String>) -> Usage {
        let tools = unmarked(&body["tools"]).to_string();
        let entries = std::iter::once(tools).chain(entries).map(|entry| (entry, false));
        let blocks = chained(&body["model"], entries.collect());
        let read = blocks.iter().rev().find(|block| self.known.contains(&block.chain));
        let read = read.map_or(0, |block| block.reach);
        let all = blocks.last().map_or(0, |block| block.reach);
        self.known.extend(blocks.into_iter().map(|block| block.chain));
        Usage { read, written: all - read, fresh: 0, marks: 0 }
    }
}

fn blocks_of(body: &Value) -> Vec<(String, bool)> {
    let marked = |block: &Value| !block["cache_control"].is_null();
    let mut blocks: Vec<(String, bool)> = Vec::new();
    for part in ["tools", "system"] {
        let given = if body[part].is_string() { content(&body[part]) } else { body[part].clone() };
        for block in given.as_array().into_iter().flatten() {
            blocks.push((json!([part, unmarked(block)]).to_string(), marked(block)));
        }
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        let given = if message["content"].is_string() {
            content(&message["content"])
        } else {
            message["content"].clone()
        };
        for block in given.as_array().into_iter().flatten() {
            blocks.push((json!([message["role"], unmarked(block)]).to_string(), marked(block)));
        }
    }
    blocks
}

fn chained(model: &Value, blocks: Vec<(String, bool)>) -> Vec<Block> {
    let (mut chain, mut reach) = (model.to_string(), 0);
    let link = |(text, marked): (String, bool)| {
        chain = Digest::of(format!("{chain}\0{text}").as_bytes()).to_hex();
        reach += text.len();
        Block { chain: chain.clone(), reach, marked }
    };
    blocks.into_iter().map(link).collect()
}
