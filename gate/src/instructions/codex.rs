//! Codex's hierarchy: the global file, then one file a directory from the project's root to the working directory.
//!
//! Measured on the real client, version 0.171.0, and read in its published `agents_md.rs`. Not seen from here:
//! settings given on the client's command line.

use std::path::{Path, PathBuf};

use super::codex_config::Config;
use super::id::Base;
use super::walk::{Place, Spot, Text, Walk, len};
use super::{DocumentState, Layer};
use crate::failure::Refusal;
use crate::seams::ReadFile;

const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// Binds and lists everything, in the host's order.
pub(super) fn run(walk: &mut Walk<'_>) -> Result<(), Refusal> {
    let mut config = Config::load(walk)?;
    let root = project_root(walk, &config.root_markers)?;
    let directories = walk.directories(&root)?;
    config.trust_project(walk, &root, &directories)?;
    global(walk, &config.home)?;
    let mut left = config.doc_bytes_max;
    for dir in &directories {
        directory(walk, &config, &Base::of_directory(dir, &root), &mut left)?;
    }
    Ok(())
}

/// The nearest ancestor with a marker, else the working directory.
fn project_root(walk: &Walk<'_>, markers: &[String]) -> Result<PathBuf, Refusal> {
    for dir in walk.cwd.ancestors() {
        for marker in markers {
            let stands = walk.fs.kind(&dir.join(marker)).map_err(|error| {
                let spot = walk.spot(&Base::of_directory(dir, &walk.cwd), Layer::Project, marker);
                walk.refuse_read(&spot, &error.into())
            })?;
            if stands.is_some() {
                return Ok(dir.to_owned());
            }
        }
    }
    Ok(walk.cwd.clone())
}

/// The first of the two global files that is not blank.
fn global(walk: &mut Walk<'_>, home: &Path) -> Result<(), Refusal> {
    let Some(base) = walk.named_base(home, Layer::User, "user")? else { return Ok(()) };
    let mut chosen: Option<&str> = None;
    for name in NAMES {
        let spot = walk.spot(&base, Layer::User, name);
        if let Some(before) = chosen {
            walk.list_aside(&spot, DocumentState::Hidden, &format!("{before} is loaded instead"));
        } else if let Some(place) = walk.file_at(&spot)? {
            let file = walk.read(&spot, &place)?;
            chosen = bind_or_list(walk, &spot, &place, &file, None)?.then_some(name);
        }
    }
    Ok(())
}

/// The first existing candidate of a project directory; the others are hidden by it, even where it is blank.
fn directory(walk: &mut Walk<'_>, config: &Config, base: &Base, left: &mut u64) -> Result<(), Refusal> {
    let mut chosen: Option<String> = None;
    for name in NAMES.into_iter().chain(config.fallback_names.iter().map(String::as_str)) {
        let spot = walk.spot(base, Layer::Project, name);
        if let Some(reason) = config.hidden_reason() {
            walk.list_aside(&spot, DocumentState::Hidden, reason);
        } else if let Some(before) = &chosen {
            walk.list_aside(&spot, DocumentState::Hidden, &format!("{before} stands before it"));
        } else if let Some(place) = walk.file_at(&spot)? {
            project_document(walk, config, &spot, &place, left)?;
            chosen = Some(name.to_owned());
        }
    }
    Ok(())
}

/// Binds a project file whole and takes its bytes off the host's budget, which is shared from the root down.
fn project_document(
    walk: &mut Walk<'_>,
    config: &Config,
    spot: &Spot,
    place: &Place,
    left: &mut u64,
) -> Result<(), Refusal> {
    let file = walk.read(spot, place)?;
    let bytes = len(&file.bytes);
    let budget = config.doc_bytes_max;
    let cut = (bytes > *left).then(|| match *left {
        0 => format!("the host drops it: project_doc_max_bytes = {budget} is used up"),
        left => format!("the host cuts it after {left} bytes: project_doc_max_bytes = {budget}"),
    });
    if bind_or_list(walk, spot, place, &file, cut.as_deref())? {
        *left = left.saturating_sub(bytes);
    }
    Ok(())
}

/// True where it was bound; a blank file is only listed.
fn bind_or_list(
    walk: &mut Walk<'_>,
    spot: &Spot,
    place: &Place,
    file: &ReadFile,
    cut: Option<&str>,
) -> Result<bool, Refusal> {
    let text = String::from_utf8_lossy(&file.bytes).into_owned();
    if text.trim().is_empty() {
        walk.list(spot, Some(file), DocumentState::Empty, "nothing but white space");
        return Ok(false);
    }
    walk.bind(spot, place, file, Text { rendered: text.clone(), whole: text }, cut)?;
    Ok(true)
}
