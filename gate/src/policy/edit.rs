//! Changes to the policy: shown first, stored only after the person confirmed them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::parse::{self, At, Parsed, fault};
use super::{Policy, Profile};
use crate::ids::Id;
use crate::strict_json;

/// The profile that `--set` means without a name.
const LOCAL: &str = "local";

/// A change that is not stored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The profile as it will be, or the one that will be gone.
    pub profile: Profile,
    /// One line a difference, for the person's own terminal: `+ key: value`, `- key: value`, `~ key: old -> new`.
    pub diff: Vec<String>,
    pub(super) action: Action,
    pub(super) base_revision: u64,
}

/// What happens to the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Put,
    Remove,
}

impl Action {
    pub(super) const EVENTS: [&'static str; 2] = ["profile-configured", "profile-removed"];

    /// Name in the history; the first is upstream's.
    pub(super) fn event(self) -> &'static str {
        match self {
            Self::Put => Self::EVENTS[0],
            Self::Remove => Self::EVENTS[1],
        }
    }
}

pub(super) fn put(policy: &Policy, profile: Profile) -> Change {
    let old = policy.profiles.iter().find(|one| one.id == profile.id).map(Profile::to_json);
    let diff = differences(old.as_ref(), Some(&profile.to_json()));
    Change { profile, diff, action: Action::Put, base_revision: policy.revision }
}

pub(super) fn removal(policy: &Policy, profile: &Profile) -> Change {
    let diff = differences(Some(&profile.to_json()), None);
    Change { profile: profile.clone(), diff, action: Action::Remove, base_revision: policy.revision }
}

pub(super) fn find<'a>(policy: &'a Policy, id: &Id) -> Parsed<&'a Profile> {
    let names = || policy.profiles.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().join(", ");
    let found = policy.profiles.iter().find(|one| one.id == *id);
    found.map_or_else(|| fault(id.as_str(), format!("no such profile; stored are: {}", names())), Ok)
}

/// The profile with one dotted key set. The whole is parsed again, so a key or value that does not exist is refused.
pub(super) fn set(policy: &Policy, key: &str, value: &str, id: Option<&Id>) -> Parsed<Profile> {
    let mut document = match id {
        Some(id) if id.as_str() != LOCAL => find(policy, id)?.to_json(),
        _ => policy.profiles.iter().find(|one| one.id.as_str() == LOCAL).map_or_else(local, Profile::to_json),
    };
    if matches!(key, "id" | "schema" | "authority") {
        return fault(key, "can't be set");
    }
    let value = strict_json::parse(value.as_bytes()).unwrap_or_else(|_| json!(value));
    let mut slot = &mut document;
    for segment in key.split('.') {
        if slot.is_null() {
            *slot = json!({});
        }
        match slot.as_object_mut() {
            Some(map) if !segment.is_empty() => slot = map.entry(segment).or_insert(Value::Null),
            _ => return fault(key, "unknown key"),
        }
    }
    *slot = value;
    parse::profile(At::new("", document))
}

/// What profile `local` is before anything is set: the default identity on every door that exists.
fn local() -> Value {
    json!({
        "id": LOCAL,
        "agentId": "host-agent:default",
        "host": ["agentspine", "claude", "codex", "generic"],
        "profileId": "default",
        "tenantId": "local-tenant",
        "enabled": true,
    })
}

fn differences(old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let flat = |value: Option<&Value>| {
        let mut leaves = BTreeMap::new();
        if let Some(value) = value {
            flatten(String::new(), value, &mut leaves);
        }
        leaves
    };
    let (old, new) = (flat(old), flat(new));
    let gone =
        old.iter().filter(|(key, _)| !new.contains_key(*key)).map(|(key, was)| format!("- {key}: {was}"));
    let come = new.iter().filter_map(|(key, is)| match old.get(key) {
        None => Some(format!("+ {key}: {is}")),
        Some(was) if was != is => Some(format!("~ {key}: {was} -> {is}")),
        Some(_) => None,
    });
    gone.chain(come).map(|line| crate::screen::neutralise(&line)).collect()
}

fn flatten(path: String, value: &Value, leaves: &mut BTreeMap<String, String>) {
    let dot = if path.is_empty() { "" } else { "." };
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| flatten(format!("{path}{dot}{key}"), value, leaves));
        }
        // A provider is compared by its id, so that a new one in front does not look like changes to all.
        Value::Array(items) if items.iter().any(Value::is_object) => items.iter().for_each(|item| {
            flatten(format!("{path}[{}]", item["id"].as_str().unwrap_or_default()), item, leaves);
        }),
        _ => drop(leaves.insert(path, value.to_string())),
    }
}
