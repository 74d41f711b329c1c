//! What both hosts' walks share: locating a candidate, reading it once, binding or listing it.
//!
//! Invariants: a document is opened only below the directory it is found in; a link is followed only to a target that
//! local policy names; every refusal names the display id and the next thing to do; every read is counted.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::id::Base;
use super::{Document, DocumentState, HostHomes, Layer, Listed, Snapshot};
use crate::failure::{Detail, Refusal};
use crate::ids::Digest;
use crate::seams::{Fs, Identity, Kind, ReadError, ReadFile, is_absent};
use crate::turn::InstructionHost;

/// Most mandatory documents of a snapshot.
pub const DOCUMENTS_MAX: usize = 256;
/// Most bytes read for a snapshot.
pub const SNAPSHOT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Most directories from the file system root to the working directory.
pub const DIRECTORIES_MAX: usize = 1024;
/// Most links on the way to one document.
const LINKS_MAX: usize = 8;
/// Largest configuration file of a host, bytes. (`~/.claude.json` keeps a history and grows.)
const HOST_FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A place where a document may stand.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) id: String,
    pub(super) layer: Layer,
    pub(super) root: PathBuf,
    pub(super) relative: PathBuf,
}

impl Spot {
    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.relative)
    }
}

/// Where a document really stands, and the allowed links on the way.
#[derive(Debug, Clone)]
pub(super) struct Place {
    root: PathBuf,
    relative: PathBuf,
    /// Text and canonical target of each link, bound into the identity.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Place {
    /// The spot itself, no link on the way.
    pub(super) fn of(spot: &Spot) -> Self {
        Self { root: spot.root.clone(), relative: spot.relative.clone(), links: Vec::new() }
    }

    /// The real path.
    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.relative)
    }

    pub(super) fn via_link(&self) -> bool {
        !self.links.is_empty()
    }

    fn identity(&self, of_handle: Identity) -> Identity {
        if self.links.is_empty() {
            return of_handle;
        }
        let mut bytes = of_handle.0.to_hex().into_bytes();
        for path in self.links.iter().flat_map(|(text, target)| [text, target]) {
            bytes.push(0);
            bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
        }
        Identity(Digest::of(&bytes))
    }
}

/// A document's text, as the model shall have it and as the host renders it.
pub(super) struct Text {
    pub(super) whole: String,
    pub(super) rendered: String,
}

/// A snapshot in the making.
pub(super) struct Walk<'a> {
    pub(super) fs: &'a dyn Fs,
    pub(super) host: InstructionHost,
    pub(super) homes: &'a HostHomes,
    pub(super) cwd: PathBuf,
    pub(super) allowed_links: &'a [PathBuf],
    documents: Vec<Document>,
    listed: Vec<Listed>,
    ids: HashSet<String>,
    bytes_left: u64,
    /// The same for documents that are only listed, so that they never crowd out a mandatory one.
    aside_bytes_left: u64,
    read: HashMap<PathBuf, ReadFile>,
}

impl<'a> Walk<'a> {
    /// Starts at a directory, made canonical here.
    pub(super) fn new(
        fs: &'a dyn Fs,
        host: InstructionHost,
        homes: &'a HostHomes,
        cwd: &Path,
        allowed_links: &'a [PathBuf],
    ) -> Result<Self, Refusal> {
        let cwd = fs.canonicalize(cwd).map_err(|error| {
            let message = format!("the working directory cannot be resolved: {error}");
            Refusal::new(Detail::Unreadable, message, "Change to a directory that exists and try again.")
        })?;
        let (documents, listed, ids, read) = Default::default();
        let (bytes_left, aside_bytes_left) = (SNAPSHOT_BYTES_MAX, SNAPSHOT_BYTES_MAX);
        Ok(Self {
            fs,
            host,
            homes,
            cwd,
            allowed_links,
            documents,
            listed,
            ids,
            bytes_left,
            aside_bytes_left,
            read,
        })
    }

    pub(super) fn finish(self) -> Snapshot {
        Snapshot { host: self.host, documents: self.documents, listed: self.listed }
    }

    /// Every directory from the file system root (or `top`) down to the working directory.
    pub(super) fn directories(&self, top: &Path) -> Result<Vec<PathBuf>, Refusal> {
        let mut found: Vec<_> =
            self.cwd.ancestors().take_while(|dir| dir.starts_with(top)).map(Path::to_owned).collect();
        if found.len() > DIRECTORIES_MAX {
            let message = format!("{} directories lead here, more than {DIRECTORIES_MAX}", found.len());
            return Err(Refusal::new(Detail::TooMany, message, "Start in a directory nearer to the root."));
        }
        found.reverse();
        Ok(found)
    }

    pub(super) fn spot(&self, base: &Base, layer: Layer, relative: impl Into<PathBuf>) -> Spot {
        let relative = relative.into();
        let id = format!("{}:{}", self.host.as_str(), base.id(&relative));
        Spot { id, layer, root: base.root.clone(), relative }
    }

    /// The managed or user directory, its own links resolved; `None` where there is none.
    pub(super) fn named_base(&self, dir: &Path, layer: Layer, label: &str) -> Result<Option<Base>, Refusal> {
        match self.fs.canonicalize(dir) {
            Ok(root) => Ok(Some(Base::named(root, label))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => {
                let spot = self.spot(&Base::named(dir.to_owned(), label), layer, "");
                Err(self.refuse_read(&spot, &error.into()))
            }
        }
    }

    /// Finds the regular file at a spot; `None` where nothing or a directory stands, as for the hosts.
    pub(super) fn file_at(&self, spot: &Spot) -> Result<Option<Place>, Refusal> {
        match self.locate(spot)? {
            Some((place, Kind::File)) => Ok(Some(place)),
            Some((_, Kind::Other)) => Err(self.refuse_read(spot, &ReadError::NotRegular)),
            Some((_, Kind::Dir | Kind::Link)) | None => Ok(None),
        }
    }

    /// Finds what stands at a spot, over no link that is not allowed.
    pub(super) fn locate(&self, spot: &Spot) -> Result<Option<(Place, Kind)>, Refusal> {
        if !spot.relative.components().all(|c| matches!(c, Component::Normal(_))) {
            return Err(self.refuse_read(spot, &ReadError::OutOfScope));
        }
        self.locate_from(spot, Place::of(spot))
    }

    fn locate_from(&self, spot: &Spot, place: Place) -> Result<Option<(Place, Kind)>, Refusal> {
        let mut at = place.root.clone();
        let mut names = place.relative.components();
        while let Some(name) = names.next() {
            at.push(name);
            let rest = names.as_path().to_owned();
            let is_leaf = rest.as_os_str().is_empty();
            match self.fs.kind(&at).map_err(|error| self.refuse_read(spot, &error.into()))? {
                Some(Kind::Link) => return self.follow(spot, place, &at, &rest),
                Some(kind) if is_leaf => return Ok(Some((place, kind))),
                Some(Kind::Dir) => {}
                Some(Kind::File | Kind::Other) | None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Goes on at an allowed link's target.
    fn follow(
        &self,
        spot: &Spot,
        mut place: Place,
        link: &Path,
        rest: &Path,
    ) -> Result<Option<(Place, Kind)>, Refusal> {
        let target = self.fs.canonicalize(link).ok();
        let Some(target) = target.filter(|t| self.allowed_links.contains(t) && place.links.len() < LINKS_MAX)
        else {
            return Err(self.refuse_link(spot, link, rest));
        };
        let text = self.fs.link_text(link).map_err(|error| self.refuse_read(spot, &error.into()))?;
        place.links.push((text, target.clone()));
        (place.root, place.relative) = match (target.parent(), target.file_name()) {
            (Some(dir), Some(name)) if rest.as_os_str().is_empty() => (dir.to_owned(), PathBuf::from(name)),
            _ => (target, rest.to_owned()),
        };
        self.locate_from(spot, place)
    }

    /// Reads a located document, once per snapshot.
    pub(super) fn read(&mut self, spot: &Spot, place: &Place) -> Result<ReadFile, Refusal> {
        let path = place.path();
        if let Some(file) = self.read.get(&path) {
            return Ok(file.clone());
        }
        let read = self.fs.read(&place.root, &place.relative, self.bytes_left);
        let mut file = read.map_err(|error| self.refuse_read(spot, &error))?;
        file.identity = place.identity(file.identity);
        self.bytes_left = self.bytes_left.saturating_sub(len(&file.bytes));
        self.read.insert(path, file.clone());
        Ok(file)
    }

    /// Takes a document into the mandatory set. `cut` = why the host cuts or drops it.
    pub(super) fn bind(
        &mut self,
        spot: &Spot,
        place: &Place,
        file: &ReadFile,
        text: Text,
        cut: Option<&str>,
    ) -> Result<(), Refusal> {
        if self.documents.len() == DOCUMENTS_MAX {
            let message = format!("{} is one document more than {DOCUMENTS_MAX}", spot.id);
            return Err(Refusal::new(Detail::TooMany, message, self.look("Remove or merge some")));
        }
        let state = if cut.is_some() { DocumentState::CutByHost } else { DocumentState::Mandatory };
        let id = self.list(spot, Some(file), state, cut.unwrap_or_default());
        let rendered = (text.rendered.as_bytes() != file.bytes).then(|| Digest::of(text.rendered.as_bytes()));
        self.documents.push(Document {
            id,
            layer: spot.layer,
            sha256: Digest::of(&file.bytes),
            rendered_sha256: rendered,
            bytes: len(&file.bytes),
            identity: file.identity,
            cut_by_host: cut.is_some(),
            text: text.whole,
            via_link: place.via_link(),
            paths: [spot.path(), place.path()],
        });
        Ok(())
    }

    /// Lists a document and returns the id it got: a second one of the same name gets `~2`, `~3`.
    pub(super) fn list(
        &mut self,
        spot: &Spot,
        file: Option<&ReadFile>,
        state: DocumentState,
        reason: &str,
    ) -> String {
        let again = (2_u32..).map(|n| format!("{}~{n}", spot.id));
        let fresh = std::iter::once(spot.id.clone()).chain(again).find(|id| !self.ids.contains(id));
        let id = fresh.unwrap_or_default();
        self.ids.insert(id.clone());
        self.listed.push(Listed {
            id: id.clone(),
            layer: spot.layer,
            path: spot.path(),
            bytes: file.map_or(0, |f| len(&f.bytes)),
            sha256: file.map(|f| Digest::of(&f.bytes)),
            state,
            reason: reason.to_owned(),
        });
        id
    }

    /// Lists a document that the host does not load now: size and digest if it can be read, never a refusal.
    pub(super) fn list_aside(&mut self, spot: &Spot, state: DocumentState, reason: &str) {
        let stands = matches!(self.fs.kind(&spot.path()), Ok(Some(Kind::File | Kind::Link)));
        if stands {
            let file = self.fs.read(&spot.root, &spot.relative, self.aside_bytes_left).ok();
            let bytes = file.as_ref().map_or(0, |file| len(&file.bytes));
            self.aside_bytes_left = self.aside_bytes_left.saturating_sub(bytes);
            self.list(spot, file.as_ref(), state, reason);
        }
    }

    /// Reads a configuration file of the host; `None` where there is none. Links are followed: what it says is the
    /// host's own setting wherever it stands.
    pub(super) fn host_file(&self, path: &Path) -> Result<Option<ReadFile>, Refusal> {
        // Most are not there; one look is quicker than resolving the way to nothing.
        if matches!(self.fs.kind(path), Ok(None)) {
            return Ok(None);
        }
        let real = match self.fs.canonicalize(path) {
            Ok(real) => real,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(self.refuse_config(path, &format!("cannot be read: {error}"))),
        };
        let (Some(dir), Some(name)) = (real.parent(), real.file_name()) else { return Ok(None) };
        let file = self.fs.read(dir, Path::new(name), HOST_FILE_BYTES_MAX);
        file.map(Some).map_err(|error| self.refuse_config(path, &error.to_string()))
    }
}

/// Length in bytes as the documents carry it.
pub(super) fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
