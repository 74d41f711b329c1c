//! Claude Code's hierarchy: managed, user, then every directory from the file system root to the working directory.
//!
//! Measured on the real client, version 2.1.332. Not seen from here, because only the client's own command line or
//! environment says it: `--setting-sources`, `--bare`, `--add-dir`, `CLAUDE_CODE_DISABLE_CLAUDE_MDS`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::id::Base;
use super::imports::{HOPS_MAX, IMPORTS_MAX, imports, is_binary_name, resolve};
use super::project::{self, Checkout};
use super::rules::{RULE_ENTRIES_MAX, is_conditional, tree};
use super::settings::{Mode, Settings, config_dir, externals_approved, managed_dir};
use super::walk::{Place, Spot, Text, Walk, len};
use super::{DocumentState, Layer, render};
use crate::failure::{Detail, Refusal};
use crate::seams::{Kind, ReadFile, is_absent};

/// Largest file that the host loads, bytes.
const HOST_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What kind of candidate a spot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Candidate {
    /// CLAUDE.md and its like, or an import.
    Memory,
    /// A rule file, which may wait for a path.
    Rule,
}

/// Why the host does not load what stands at a spot; `None` = it does.
type Hidden = Option<&'static str>;

/// The walk through Claude's hierarchy.
pub(super) struct Claude<'w, 'a> {
    pub(super) walk: &'w mut Walk<'a>,
    pub(super) settings: Settings,
    /// The directory whose documents are called `project`.
    pub(super) project: PathBuf,
    checkout: Option<Checkout>,
    user_root: Option<PathBuf>,
    /// Real paths met so far: the host loads each once.
    seen: HashSet<PathBuf>,
    /// Paths listed as left out, so that each is listed once.
    aside: HashSet<PathBuf>,
    externals_approved: Option<bool>,
    rule_entries_left: usize,
}

impl<'w, 'a> Claude<'w, 'a> {
    /// Binds and lists everything, in the host's order.
    pub(super) fn run(walk: &'w mut Walk<'a>) -> Result<Self, Refusal> {
        let settings = Settings::load(walk)?;
        let checkout = project::checkout(walk.fs, &walk.cwd);
        let project = checkout.as_ref().map_or_else(|| walk.cwd.clone(), |c| c.root.clone());
        let mut claude = Self {
            walk,
            settings,
            project,
            checkout,
            user_root: None,
            seen: HashSet::new(),
            aside: HashSet::new(),
            externals_approved: None,
            rule_entries_left: RULE_ENTRIES_MAX,
        };
        claude.managed()?;
        claude.user()?;
        claude.directories()?;
        Ok(claude)
    }

    fn managed(&mut self) -> Result<(), Refusal> {
        let base = self.walk.named_base(&managed_dir(self.walk.homes), Layer::Managed, "managed")?;
        if let Some(base) = &base {
            self.document(&self.walk.spot(base, Layer::Managed, "CLAUDE.md"), Candidate::Memory, None)?;
        }
        if let Some((spot, text, file)) = self.settings.managed_text.take() {
            let place = Place::of(&spot);
            self.walk.bind(&spot, &place, &file, Text { rendered: text.clone(), whole: text }, None)?;
        }
        match &base {
            Some(base) => self.rules(&self.walk.spot(base, Layer::Managed, ".claude/rules"), None),
            None => Ok(()),
        }
    }

    fn user(&mut self) -> Result<(), Refusal> {
        let dir = config_dir(self.walk.homes);
        let Some(base) = self.walk.named_base(&dir, Layer::User, "user")? else { return Ok(()) };
        self.user_root = Some(base.root.clone());
        let hidden = self.managed_only();
        self.document(&self.walk.spot(&base, Layer::User, "CLAUDE.md"), Candidate::Memory, hidden)?;
        self.rules(&self.walk.spot(&base, Layer::User, "rules"), hidden)
    }

    fn managed_only(&self) -> Hidden {
        (self.settings.mode == Mode::ManagedOnly).then_some("the host's setting is managed-only")
    }

    fn directories(&mut self) -> Result<(), Refusal> {
        let directories = self.walk.directories(Path::new("/"))?;
        let agents_hidden = match self.settings.mode {
            Mode::Both => None,
            Mode::ClaudeOnly => Some("the host's setting is claude-md"),
            Mode::ManagedOnly => self.managed_only(),
            Mode::Either => self.has_claude_md(&directories)?.then_some("a CLAUDE.md is loaded instead"),
        };
        directories.iter().try_for_each(|dir| self.directory(dir, agents_hidden))
    }

    fn directory(&mut self, dir: &Path, agents_hidden: Hidden) -> Result<(), Refusal> {
        let base = Base::of_directory(dir, &self.project);
        let hidden = self.managed_only();
        let shared = hidden.or_else(|| self.is_own_main_checkout(dir));
        let candidates =
            [("CLAUDE.md", Layer::Project, shared), ("AGENTS.md", Layer::Project, agents_hidden)];
        for (name, layer, hidden) in candidates {
            self.candidate(&base, layer, name, hidden)?;
        }
        if self.has_own_dot_claude(dir) {
            self.candidate(&base, Layer::Project, ".claude/CLAUDE.md", shared)?;
            self.candidate(&base, Layer::Project, ".claude/AGENTS.md", agents_hidden)?;
            self.rules(&self.walk.spot(&base, Layer::Project, ".claude/rules"), shared)?;
        }
        self.candidate(&base, Layer::Local, "CLAUDE.local.md", hidden)
    }

    /// A candidate of a directory. Most directories have none: one look, before anything is made of it.
    fn candidate(&mut self, base: &Base, layer: Layer, name: &str, hidden: Hidden) -> Result<(), Refusal> {
        if matches!(self.walk.fs.kind(&base.root.join(name)), Ok(None)) {
            return Ok(());
        }
        self.document(&self.walk.spot(base, layer, name), Candidate::Memory, hidden)
    }

    /// Whether a directory has a `.claude` other than the person's own, whose files are the user's, once.
    fn has_own_dot_claude(&self, dir: &Path) -> bool {
        let path = dir.join(".claude");
        match self.walk.fs.kind(&path) {
            Ok(Some(Kind::Dir)) => self.user_root.as_ref() != Some(&path),
            Ok(Some(Kind::Link)) => self.walk.fs.canonicalize(&path).ok() != self.user_root,
            Ok(Some(Kind::File | Kind::Other) | None) => false,
            // The candidates in it refuse with the reason.
            Err(_) => true,
        }
    }

    /// A linked worktree inside its own main checkout has its own copy of the checked-in files.
    fn is_own_main_checkout(&self, dir: &Path) -> Hidden {
        let checkout = self.checkout.as_ref()?;
        let inside = checkout.root != checkout.main && checkout.root.starts_with(&checkout.main);
        (inside && dir == checkout.main).then_some("this worktree has its own copy")
    }

    /// Whether any directory has a CLAUDE.md that counts against the AGENTS.md fallback. User and managed files,
    /// rules and excluded files do not.
    fn has_claude_md(&mut self, directories: &[PathBuf]) -> Result<bool, Refusal> {
        for dir in directories.iter().rev() {
            let base = Base::of_directory(dir, &self.project);
            let shared = self.is_own_main_checkout(dir).is_none();
            let dot_claude = shared && self.has_own_dot_claude(dir);
            for (name, counts) in
                [("CLAUDE.md", shared), (".claude/CLAUDE.md", dot_claude), ("CLAUDE.local.md", true)]
            {
                if !counts || matches!(self.walk.fs.kind(&dir.join(name)), Ok(None)) {
                    continue;
                }
                let spot = self.walk.spot(&base, Layer::Project, name);
                if !self.settings.excludes(&spot.path()) && self.is_filled(&spot)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn is_filled(&mut self, spot: &Spot) -> Result<bool, Refusal> {
        let Some(place) = self.walk.file_at(spot)? else { return Ok(false) };
        if self.seen.contains(&place.path()) {
            return Ok(false);
        }
        let file = self.walk.read(spot, &place)?;
        Ok(!render::claude(&String::from_utf8_lossy(&file.bytes)).trim().is_empty())
    }

    fn rules(&mut self, top: &Spot, hidden: Hidden) -> Result<(), Refusal> {
        let mut left = self.rule_entries_left;
        let found = match tree(self.walk, top, &mut left) {
            // What the host does not load refuses nothing.
            Err(_) if hidden.is_some() => Vec::new(),
            found => found?,
        };
        self.rule_entries_left = left;
        found.iter().try_for_each(|spot| self.document(spot, Candidate::Rule, hidden))
    }

    /// One candidate: bound with its imports, or listed with the reason why not.
    fn document(&mut self, spot: &Spot, candidate: Candidate, hidden: Hidden) -> Result<(), Refusal> {
        let mine = spot.layer == Layer::Managed;
        let hidden = match hidden {
            None if !mine && self.settings.excludes(&spot.path()) => Some("claudeMdExcludes names it"),
            other => other,
        };
        if let Some(reason) = hidden {
            self.leave_out(spot, reason);
            return Ok(());
        }
        let Some(place) = self.walk.file_at(spot)? else { return Ok(()) };
        if !mine && place.via_link() && self.settings.excludes(&place.path()) {
            self.leave_out(spot, "claudeMdExcludes names its target");
        } else if candidate == Candidate::Rule && place.via_link() && self.is_closed(spot, &place.path())? {
            self.list_external(spot);
        } else {
            self.load(spot, &place, candidate, 0)?;
        }
        Ok(())
    }

    /// Reads a located document and decides what it is for the host.
    fn load(&mut self, spot: &Spot, place: &Place, candidate: Candidate, hops: usize) -> Result<(), Refusal> {
        if !self.seen.insert(place.path()) {
            if place.via_link() {
                self.walk.list(spot, None, DocumentState::Hidden, "its target is loaded already");
            }
            return Ok(());
        }
        let file = self.walk.read(spot, place)?;
        let whole = self.utf8(spot, &file)?;
        let rendered = render::claude(&whole);
        if rendered.trim().is_empty() {
            self.walk.list(spot, Some(&file), DocumentState::Empty, "nothing but white space is left of it");
        } else if candidate == Candidate::Rule && is_conditional(&whole) {
            self.walk.list(spot, Some(&file), DocumentState::Lazy, "waits for a file that matches its paths");
        } else if len(&file.bytes) > HOST_FILE_BYTES_MAX {
            let cut = format!("the host skips files over {HOST_FILE_BYTES_MAX} bytes");
            self.walk.bind(spot, place, &file, Text { whole, rendered }, Some(&cut))?;
        } else {
            let found = imports(&rendered);
            self.walk.bind(spot, place, &file, Text { whole, rendered }, None)?;
            self.follow_imports(spot, place, &found, hops + 1)?;
        }
        Ok(())
    }

    fn utf8(&self, spot: &Spot, file: &ReadFile) -> Result<String, Refusal> {
        let bytes = file.bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&file.bytes);
        let error = match std::str::from_utf8(bytes) {
            Ok(text) => return Ok(text.to_owned()),
            Err(error) => error,
        };
        let offset = error.valid_up_to() + file.bytes.len() - bytes.len();
        let message = format!("{} is not UTF-8 at byte {offset}", spot.id);
        Err(Refusal::new(Detail::NonUtf8, message, self.walk.look("Save it as UTF-8")))
    }

    fn follow_imports(
        &mut self,
        from: &Spot,
        at: &Place,
        found: &[String],
        hops: usize,
    ) -> Result<(), Refusal> {
        if found.len() > IMPORTS_MAX {
            let message = format!("{} imports more than {IMPORTS_MAX} files", from.id);
            return Err(Refusal::new(Detail::TooMany, message, self.walk.look("Import fewer")));
        }
        let path = at.path();
        let dir = path.parent().unwrap_or(Path::new("/"));
        found.iter().try_for_each(|import| {
            let path = resolve(import, dir, &self.walk.homes.home);
            self.import(from, &path, hops)
        })
    }

    /// One import, hops files away from its document.
    fn import(&mut self, from: &Spot, path: &Path, hops: usize) -> Result<(), Refusal> {
        let Some(spot) = self.import_spot(from, path, hops) else { return Ok(()) };
        let real = spot.path();
        if self.seen.contains(&real) || !self.may_be_document(&spot) {
            return Ok(());
        }
        if hops > HOPS_MAX {
            self.leave_out(&spot, "more than four imports away");
        } else if spot.layer != Layer::Managed && self.settings.excludes(&real) {
            self.leave_out(&spot, "claudeMdExcludes names it");
        } else if is_binary_name(&real) {
            self.leave_out(&spot, "the host imports text files only");
        } else if self.is_closed(&spot, &real)? && !self.leads_inside(&real) {
            self.list_external(&spot);
        } else if let Some(place) = self.walk.file_at(&spot)? {
            if place.via_link() && self.is_closed(&spot, &place.path())? {
                self.list_external(&spot);
            } else {
                self.load(&spot, &place, Candidate::Memory, hops)?;
            }
        }
        Ok(())
    }

    /// Where an import would be opened: below its document's own root, else in the directory it names.
    fn import_spot(&self, from: &Spot, path: &Path, hops: usize) -> Option<Spot> {
        let (dir, name) = (path.parent()?, path.file_name()?);
        let (root, relative) = match path.strip_prefix(&from.root) {
            Ok(relative) => (from.root.clone(), relative.to_owned()),
            Err(_) => match self.walk.fs.canonicalize(dir) {
                Ok(dir) => (dir, PathBuf::from(name)),
                Err(error) if is_absent(&error) => return None,
                // What may not even be looked at is listed as external or refused as unreadable.
                Err(_) => (dir.to_owned(), PathBuf::from(name)),
            },
        };
        let real = root.join(&relative);
        let inside = real.strip_prefix(&self.project).ok().map(Path::to_owned);
        let base = Base::named(root.clone(), &format!("import-{hops}"));
        let id_path = inside.unwrap_or_else(|| relative.clone());
        let spot = self.walk.spot(&base, from.layer, id_path);
        Some(Spot { root, relative, ..spot })
    }

    /// Most words after an `@` name no file at all: those are no imports.
    fn may_be_document(&self, spot: &Spot) -> bool {
        !matches!(self.walk.fs.kind(&spot.path()), Ok(None | Some(Kind::Dir)))
    }

    /// Whether a project's document lies outside the working directory and the person has not approved that.
    fn is_closed(&mut self, spot: &Spot, real: &Path) -> Result<bool, Refusal> {
        if matches!(spot.layer, Layer::Managed | Layer::User) || real.starts_with(&self.walk.cwd) {
            return Ok(false);
        }
        let approved = match self.externals_approved {
            Some(approved) => approved,
            None => *self.externals_approved.insert(externals_approved(self.walk)?),
        };
        Ok(!approved)
    }

    /// A link outside may lead back to where the host loads from.
    fn leads_inside(&self, path: &Path) -> bool {
        self.walk.fs.canonicalize(path).is_ok_and(|real| real.starts_with(&self.walk.cwd))
    }

    /// Lists, once, a document that the host does not load.
    fn leave_out(&mut self, spot: &Spot, reason: &str) {
        let path = spot.path();
        if !self.seen.contains(&path) && self.aside.insert(path) {
            self.walk.list_aside(spot, DocumentState::Hidden, reason);
        }
    }

    /// Lists, once and unread, what the person has not opened to the host.
    fn list_external(&mut self, spot: &Spot) {
        if self.aside.insert(spot.path()) {
            let reason = "outside the working directory and not approved in Claude Code";
            self.walk.list(spot, None, DocumentState::ExternalNotApproved, reason);
        }
    }
}
