//! Reading once for several calls: policy, rules and instruction files, for calls that were all asked before.
//!
//! Sharing weakens nothing: each call still has its files read after it was asked, and again between its issue and its
//! consumption. What is shared is a reading, never its age: a [`Fresh`] is made for a group and dropped with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::failure::Refusal;
use crate::ids::Id;
use crate::instructions::{self, HostHomes, Snapshot};
use crate::policy::{Policy, PolicyStore};
use crate::remember::Active;
use crate::seams::Fs;
use crate::turn::InstructionHost;

/// What was read so far for one group of calls. Everything in it was read after it was made.
#[derive(Default)]
pub struct Fresh {
    policy: Option<Result<Arc<Policy>, Refusal>>,
    snapshots: Vec<(Where, Result<Arc<Snapshot>, Refusal>)>,
    remembered: Option<Result<u64, Refusal>>,
    rules: Vec<(Whose, Rules)>,
}

/// What a snapshot depends on, beside the files.
#[derive(PartialEq, Eq)]
pub(crate) struct Where {
    pub(crate) host: InstructionHost,
    pub(crate) homes: HostHomes,
    pub(crate) cwd: PathBuf,
    pub(crate) links: Vec<PathBuf>,
}

type Rules = Result<Arc<Vec<Active>>, Refusal>;

/// Whom rules apply to: user, tenant, project, group, task.
pub(crate) type Whose = (Id, Id, Id, Option<Id>, Option<Id>);

impl Fresh {
    /// The policy in force, read by the first call that asks.
    pub(crate) fn policy(&mut self, gate_dir: &Path) -> Result<Arc<Policy>, Refusal> {
        let read = || PolicyStore::new(gate_dir).load().map(Arc::new);
        self.policy.get_or_insert_with(read).clone()
    }

    /// The snapshot of a place, taken by the first call that asks.
    pub(crate) fn snapshot(&mut self, fs: &dyn Fs, place: Where) -> Result<Arc<Snapshot>, Refusal> {
        if let Some((_, taken)) = self.snapshots.iter().find(|(known, _)| *known == place) {
            return taken.clone();
        }
        let Where { host, homes, cwd, links } = &place;
        let taken = instructions::snapshot(fs, *host, homes, cwd, links).map(Arc::new);
        self.snapshots.push((place, taken.clone()));
        taken
    }

    /// How far the Must-Remember store has come, read by the first call that asks.
    pub(crate) fn remembered(&mut self, read: impl FnOnce() -> Result<u64, Refusal>) -> Result<u64, Refusal> {
        self.remembered.get_or_insert_with(read).clone()
    }

    /// The rules that apply to somebody, read by the first call that asks.
    pub(crate) fn rules(
        &mut self,
        whose: Whose,
        read: impl FnOnce(&Whose) -> Result<Vec<Active>, Refusal>,
    ) -> Rules {
        if let Some((_, found)) = self.rules.iter().find(|(known, _)| *known == whose) {
            return found.clone();
        }
        let found = read(&whose).map(Arc::new);
        self.rules.push((whose, found.clone()));
        found
    }
}
