//! `<state>/gate/policy.json`: read safely, changed under a lock, replaced whole.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::edit::{self, Action, Change};
use super::parse::{self, At, Parsed, fault};
use super::{POLICY_BYTES_MAX, Policy, Profile};
use crate::failure::{Detail, Refusal};
use crate::ids::Id;
use crate::private::{Unfit, lock, lock_file, read_private, replace};
use crate::strict_json;

/// Schema of the file (upstream's).
pub const POLICY_SCHEMA: &str = "agentspine.preflight-policy/v1";
/// What stands as `authority` in profiles and history items (upstream's).
pub const AUTHORITY: &str = "authenticated-local-policy";
/// Most profiles.
const PROFILES_MAX: usize = 64;
/// History items that are kept; older ones are dropped, so that the file can't grow until every write fails.
const HISTORY_MAX: usize = 200;
/// Largest revision: the largest whole number every JSON reader keeps exactly.
const REVISION_MAX: u64 = (1 << 53) - 1;
/// How long a change waits for another one, milliseconds.
const LOCK_WAIT_MS: u32 = 5000;
/// How messages name the file.
const FILE: &str = "gate/policy.json in the state directory";

/// The policy file of one state directory.
#[derive(Debug, Clone)]
pub struct PolicyStore {
    file: PathBuf,
}

/// The whole file.
#[derive(Default)]
struct Stored {
    policy: Policy,
    history: Vec<Value>,
}

impl PolicyStore {
    /// The store in `<state>/gate`; touches nothing.
    pub fn new(gate_dir: &Path) -> Self {
        Self { file: gate_dir.join("policy.json") }
    }

    /// Where the file stands, for the person's own terminal.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// The policy in force; a missing file is revision 0 without profiles, anything unreadable or invalid refuses.
    pub fn load(&self) -> Result<Policy, Refusal> {
        Ok(self.read()?.policy)
    }

    /// What storing this profile document would change.
    pub fn propose(&self, document: &[u8]) -> Result<Change, Refusal> {
        if document.len() as u64 > POLICY_BYTES_MAX {
            return Err(rejected(format!("it is larger than {POLICY_BYTES_MAX} bytes")));
        }
        let value = strict_json::parse(document).map_err(rejected)?;
        let profile = parse::profile(At::new("", value)).map_err(rejected)?;
        Ok(edit::put(&self.load()?, profile))
    }

    /// What setting one dotted key of a profile would change. `value` is JSON, or else plain text. Without a profile id
    /// profile `local` is meant, which is created where it does not exist.
    pub fn set(&self, key: &str, value: &str, profile: Option<&Id>) -> Result<Change, Refusal> {
        let policy = self.load()?;
        edit::set(&policy, key, value, profile).map(|profile| edit::put(&policy, profile)).map_err(rejected)
    }

    /// What removing a profile would change.
    pub fn remove(&self, id: &Id) -> Result<Change, Refusal> {
        let policy = self.load()?;
        edit::find(&policy, id).map(|profile| edit::removal(&policy, profile)).map_err(rejected)
    }

    /// Stores a change the person confirmed, and returns the new revision. Refuses where the file changed meanwhile: the
    /// person confirmed another difference.
    pub fn apply(&self, change: Change, wall_ms: i64) -> Result<u64, Refusal> {
        let file = lock_file(&self.file).map_err(|e| unwritable(&e))?;
        let held = lock(&file, LOCK_WAIT_MS).map_err(|e| unwritable(&e))?;
        let _held =
            held.ok_or_else(|| rejected("another process is changing the policy; run the command again"))?;
        let mut stored = self.read()?;
        if stored.policy.revision != change.base_revision {
            return Err(rejected("the policy changed since this change was shown; run the command again"));
        }
        let (event, id) = (change.action.event(), change.profile.id.clone());
        match change.action {
            Action::Put => put(&mut stored.policy.profiles, change.profile),
            Action::Remove => stored.policy.profiles.retain(|profile| profile.id != id),
        }
        if stored.policy.profiles.len() > PROFILES_MAX {
            return Err(rejected(format!("at most {PROFILES_MAX} profiles")));
        }
        stored.policy.revision += 1;
        stored
            .history
            .push(json!({"event": event, "profileId": id, "at": iso(wall_ms), "authority": AUTHORITY}));
        let surplus = stored.history.len().saturating_sub(HISTORY_MAX);
        stored.history.drain(..surplus);
        self.write(&stored)?;
        Ok(stored.policy.revision)
    }

    fn read(&self) -> Result<Stored, Refusal> {
        let Some(bytes) = read(&self.file)? else { return Ok(Stored::default()) };
        let value = strict_json::parse(&bytes).map_err(corrupt)?;
        stored(value).map_err(corrupt)
    }

    fn write(&self, stored: &Stored) -> Result<(), Refusal> {
        let profiles: Vec<Value> = stored.policy.profiles.iter().map(Profile::to_json).collect();
        let document = json!({
            "schema": POLICY_SCHEMA,
            "revision": stored.policy.revision,
            "profiles": profiles,
            "history": stored.history,
        });
        let bytes = serde_json::to_vec_pretty(&document).map_err(rejected)?;
        if bytes.len() as u64 > POLICY_BYTES_MAX {
            return Err(rejected(format!("the policy file would be larger than {POLICY_BYTES_MAX} bytes")));
        }
        replace(&self.file, &bytes).map(drop).map_err(|e| unwritable(&e))
    }
}

fn put(profiles: &mut Vec<Profile>, profile: Profile) {
    match profiles.iter_mut().find(|one| one.id == profile.id) {
        Some(one) => *one = profile,
        None => profiles.push(profile),
    }
}

fn stored(value: Value) -> Parsed<Stored> {
    let mut keys = At::new("", value).object()?;
    if keys.word("schema", &[POLICY_SCHEMA])?.is_none() {
        return fault("schema", "is missing");
    }
    let revision = keys.need("revision")?.number((0, REVISION_MAX))?;
    let mut profiles: Vec<Profile> = Vec::new();
    for at in keys.need("profiles")?.list(PROFILES_MAX)? {
        let path = at.path.clone();
        let next = parse::profile(at)?;
        if profiles.iter().any(|one| one.id == next.id) {
            return fault(format!("{path}.id"), format!("profile {} stands twice", next.id));
        }
        profiles.push(next);
    }
    let history =
        keys.need("history")?.list(HISTORY_MAX)?.into_iter().map(history_item).collect::<Parsed<_>>()?;
    keys.end()?;
    Ok(Stored { policy: Policy { revision, profiles }, history })
}

/// A history item, given back as it is; one without our authority makes the file corrupt, as upstream has it.
fn history_item(at: At) -> Parsed<Value> {
    let (path, value) = (at.path.clone(), at.value.clone());
    let mut keys = at.object()?;
    let event = keys.word("event", &Action::EVENTS)?;
    let authority = keys.word("authority", &[AUTHORITY])?;
    keys.need("profileId")?.id()?;
    let dated = keys.need("at")?.value.as_str().is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok());
    if event.is_none() || authority.is_none() || !dated {
        return fault(path, "expected event, profileId, at and authority");
    }
    keys.end()?;
    Ok(value)
}

/// What stands at the path; `None` where nothing does.
fn read(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Refusal> {
    match read_private(path, POLICY_BYTES_MAX) {
        Ok((bytes, _)) => Ok(Some(bytes)),
        Err(Unfit::Absent) => Ok(None),
        Err(Unfit::NotRegular) => Err(corrupt("it is a link or not a regular file")),
        Err(Unfit::Mode) => Err(corrupt("others may read or write it; `chmod 600` it")),
        Err(Unfit::Owner) => Err(corrupt("it belongs to another user")),
        Err(Unfit::TooLarge) => Err(corrupt(format!("it is larger than {POLICY_BYTES_MAX} bytes"))),
        Err(Unfit::Io(e)) => Err(corrupt(format!("it cannot be read: {}", e.kind()))),
    }
}

fn iso(wall_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(wall_ms).unwrap_or_default().to_string()
}

fn corrupt(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(
        Detail::PolicyInvalid,
        format!("The local policy ({FILE}) cannot be used: {}", shown(why)),
        "Mend the file or move it away, then store your profiles again: `agentspine preflight-policy FILE --confirm-local-policy`.",
    )
}

fn rejected(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(
        Detail::PolicyInvalid,
        format!("Nothing was stored in the local policy: {}", shown(why)),
        "See what is in force with `agentspine preflight-policy --show`, correct the profile and run the command again.",
    )
}

fn unwritable(why: &io::Error) -> Refusal {
    Refusal::new(
        Detail::PolicyInvalid,
        format!("The local policy ({FILE}) cannot be written: {}", why.kind()),
        "Check that the state directory is yours, 0700, and has space: `agentspine state check`.",
    )
}

/// Key names come from the document: one line, nothing invisible, bounded.
fn shown(why: impl std::fmt::Display) -> String {
    crate::screen::neutralise(&why.to_string()).chars().take(400).collect()
}
