//! `memory_forget_preview` and `memory_forget_confirm`: first a list for the person, then exactly what they chose of it.

use std::collections::HashSet;

use agentspine_gate::Id;
use serde_json::{Value, json};

use super::arguments::{ForgetConfirm, ForgetPreview, Match};
use super::previews::{self, Token};
use super::scan;
use super::{CANDIDATES_MAX, NOT_REACHED, NOTE, ToolAnswer, ToolError, Tools, without_secrets};
use crate::authorize::Capability;
use crate::entry::Entry;
use crate::forget::Forgotten;
use crate::words::{self, Word};

impl Tools<'_> {
    pub(super) fn forget_preview(&mut self, asked: &ForgetPreview) -> Result<ToolAnswer, ToolError> {
        let (query, _) = without_secrets(&asked.query);
        let mut matching = Matching::new(&query, asked.matching);
        scan::each(self.ledger, &self.caller.scope, |entry| matching.see(entry))?;
        let listed = matching.best();
        let ids: Vec<Id> = listed.iter().map(|entry| entry.memory_id.clone()).collect();
        let conversations = self.host.holding(&ids).map_err(ToolError::Host)?;
        let token = self.keep_preview(&ids)?;
        let candidates: Vec<Value> = listed.iter().map(|entry| self.shown(entry)).collect();
        let value = json!({
            "preview_token": token.as_ref().map(Token::as_str),
            "candidates": candidates,
            "matched": matching.matched,
            "total_in_scope": matching.total,
            "truncated": matching.matched > candidates.len(),
            "conversations": conversations,
            "note": NOTE,
            "not_reached": NOT_REACHED,
        });
        Ok(ToolAnswer::done(
            value,
            format!("{} of {} listed; nothing forgotten", ids.len(), matching.matched),
        ))
    }

    /// A preview of exactly one memory, for a person who has it before their eyes: the token, or why there is none.
    pub fn preview_one(&mut self, id: &Id) -> Result<String, String> {
        self.caller.grants.check(Capability::Delete).map_err(|error| error.to_string())?;
        let here = self.ledger.record(&self.caller.scope, id).map_err(|error| error.to_string())?;
        if here.is_none() {
            return Err("this memory is no longer here".to_owned());
        }
        let token = self.keep_preview(std::slice::from_ref(id)).map_err(|error| error.to_string())?;
        token.map(|token| token.as_str().to_owned()).ok_or_else(|| "nothing to forget".to_owned())
    }

    /// A preview without candidates has no token: there is nothing to confirm.
    fn keep_preview(&mut self, ids: &[Id]) -> Result<Option<Token>, ToolError> {
        if ids.is_empty() {
            return Ok(None);
        }
        let token = Token::draw(self.caller.rng)?;
        previews::keep(self.ledger, &token, &self.caller.scope, ids, self.caller.now_ms)?;
        Ok(Some(token))
    }

    pub(super) fn forget_confirm(&mut self, asked: &ForgetConfirm) -> Result<ToolAnswer, ToolError> {
        let (scope, now) = (&self.caller.scope, self.caller.now_ms);
        let listed = previews::redeem(self.ledger, &asked.preview_token, scope, now)?;
        let listed: HashSet<Id> = listed.ok_or(ToolError::Preview)?.into_iter().collect();
        let mut seen = HashSet::new();
        let asked = asked.memory_ids.iter().filter(|id| seen.insert(*id)).cloned();
        let (chosen, others): (Vec<Id>, Vec<Id>) = asked.partition(|id| listed.contains(id));
        let forgotten = self.ledger.forget_all(scope, &chosen, now)?;
        let refusal = |id: &Id, reason: &str| json!({ "memory_id": id, "reason": reason });
        let mut refused: Vec<Value> = others.iter().map(|id| refusal(id, "not in this preview")).collect();
        let (mut results, mut gone) = (Vec::new(), Vec::new());
        for (id, forgotten) in chosen.into_iter().zip(forgotten) {
            match forgotten {
                Forgotten::Now(cleanup) | Forgotten::Before(cleanup) => {
                    results.push(json!({ "memory_id": id, "cleanup_state": cleanup.as_str() }));
                    gone.push(id);
                }
                Forgotten::Unknown => refused.push(refusal(&id, "no longer here")),
            }
        }
        let line = format!("{} forgotten, {} refused", results.len(), refused.len());
        let mut value = json!({ "results": results, "refused": refused, "not_reached": NOT_REACHED });
        // The tombstones stand already; what is left of injected text is told, not hidden.
        if let Err(error) = self.host.erase(&gone) {
            value["not_erased"] =
                json!({ "what": "injected text", "reason": error.message, "advice": error.advice });
        }
        Ok(ToolAnswer::done(value, line))
    }
}

/// What a preview finds: how many match, and the best of them.
struct Matching {
    words: Vec<Word>,
    how: Match,
    /// An empty query with match=all.
    everything: bool,
    matched: usize,
    total: usize,
    best: Vec<(usize, Entry)>,
}

impl Matching {
    fn new(query: &str, how: Match) -> Self {
        let words = words::content_words(query);
        let everything = how == Match::All && query.trim().is_empty();
        Self { words, how, everything, matched: 0, total: 0, best: Vec::new() }
    }

    fn see(&mut self, entry: Entry) {
        self.total += 1;
        let Some(weight) = self.weight(&entry) else { return };
        self.matched += 1;
        // Oldest first come in; newest first stand before them, and only the best are kept.
        let at = self.best.partition_point(|(known, _)| *known > weight);
        if at < CANDIDATES_MAX {
            self.best.insert(at, (weight, entry));
            self.best.truncate(CANDIDATES_MAX);
        }
    }

    /// How many words of the query it holds; `None` where those are too few.
    fn weight(&self, entry: &Entry) -> Option<usize> {
        if self.everything {
            return Some(0);
        }
        let text = [&entry.title, &entry.summary, &entry.tags.join("\n")].map(String::as_str).join("\n");
        let stems: HashSet<String> = words::indexed(&text).into_iter().flat_map(|word| word.stems).collect();
        let held = |word: &&Word| word.stems.iter().any(|stem| stems.contains(stem));
        let weight = self.words.iter().filter(held).count();
        let enough = match self.how {
            Match::Terms => weight > 0,
            Match::All => weight > 0 && weight == self.words.len(),
        };
        enough.then_some(weight)
    }

    fn best(&self) -> Vec<Entry> {
        self.best.iter().map(|(_, entry)| entry.clone()).collect()
    }
}
