//! `[memory]`: what models and the person may do with memories.
//!
//! A table that cannot be read grants nothing: memory is off and says why, and everything else works on. Keys of what is
//! refused by design get a warning that names what would have to exist first, and change nothing.

use agentspine_memory::{Authorization, Capability, Preset};
use toml::{Table, Value};

/// What would have to exist before whole conversations were kept as memories.
const PREREQUISITES: &str = "it would need consent for each session, versioned chunks with provenance, a lifetime of \
their own, complete cleanup, honest limits of export, and isolation and hardening against injected text; the key is ignored";

/// What the configuration says about memories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemorySettings {
    /// Who may do what.
    pub authorization: Authorization,
    /// What the person should read.
    pub warnings: Vec<String>,
}

impl MemorySettings {
    /// From the table, where there is one.
    pub(super) fn of(table: Option<Value>) -> Self {
        let mut settings = Self::default();
        let read = match table {
            None => Ok(()),
            Some(Value::Table(table)) => settings.read(table),
            Some(_) => Err("memory is no table".to_owned()),
        };
        if let Err(why) = read {
            settings.authorization = Authorization::disabled();
            settings.warnings.push(format!("[memory] cannot be read ({why}), so memory is disabled"));
        }
        settings
    }

    fn read(&mut self, table: Table) -> Result<(), String> {
        for (key, value) in table {
            match key.as_str() {
                "preset" => self.authorization.preset = preset(&value)?,
                "allow" => self.allow(&value)?,
                "reconcile_tool" => {
                    self.authorization.reconcile_tool =
                        value.as_bool().ok_or("reconcile_tool is true or false")?;
                }
                "transcript-mirror" | "transcript_mirror" | "transcriptMirror" => {
                    self.refuse("transcript-mirror");
                }
                "extraction" => self.refuse("extraction"),
                "legacyBridge" | "legacy_bridge" | "legacy-bridge" => self.warnings.push(
                    "[memory] legacyBridge was removed: the ledger needs no bridge; delete the key"
                        .to_owned(),
                ),
                _ => return Err("an unknown key; there are preset, allow and reconcile_tool".to_owned()),
            }
        }
        Ok(())
    }

    fn allow(&mut self, value: &Value) -> Result<(), String> {
        let words = value.as_array().ok_or("allow is a list of capabilities")?;
        for word in words {
            let capability = word.as_str().and_then(Capability::parse);
            match capability.ok_or_else(capabilities)? {
                Capability::TranscriptMirror => self.refuse("transcript-mirror"),
                capability => drop(self.authorization.allow.insert(capability)),
            }
        }
        Ok(())
    }

    fn refuse(&mut self, what: &str) {
        self.warnings.push(format!("[memory] {what} is refused: {PREREQUISITES}"));
    }
}

fn preset(value: &Value) -> Result<Preset, String> {
    let preset = value.as_str().and_then(Preset::parse);
    preset.ok_or_else(|| format!("preset is one of {}", Preset::ALL.map(Preset::as_str).join(", ")))
}

fn capabilities() -> String {
    let all = Capability::ALL.into_iter().filter(|one| *one != Capability::TranscriptMirror);
    format!("allow takes {}", all.map(Capability::as_str).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use agentspine_memory::Actor;

    use super::*;

    fn read(text: &str) -> MemorySettings {
        let mut file: Table = text.parse().unwrap();
        MemorySettings::of(file.remove("memory"))
    }

    fn words(text: &str, actor: Actor) -> Vec<&'static str> {
        read(text).authorization.grants(actor).words()
    }

    #[test]
    fn without_a_table_a_model_may_recall_write_and_reconcile_and_the_person_everything() {
        assert_eq!(words("", Actor::Model), ["read-only-recall", "semantic-write", "reconcile"]);
        let person = [
            "read-only-recall",
            "semantic-write",
            "delete",
            "global-rule-write",
            "export",
            "archive",
            "connect",
            "reconcile",
        ];
        assert_eq!(words("", Actor::Person), person);
        assert_eq!(words("[memory]\npreset = 'full'", Actor::Model), person);
    }

    #[test]
    fn disabled_and_read_only_hold_for_everybody() {
        for actor in [Actor::Person, Actor::Model] {
            assert_eq!(words("[memory]\npreset = 'disabled'\nallow = ['delete']", actor), ["disabled"]);
            assert_eq!(words("[memory]\npreset = 'read-only'", actor), ["read-only-recall"]);
        }
        let text = "[memory]\npreset = 'read-only'\nallow = ['export']";
        assert_eq!(words(text, Actor::Model), ["read-only-recall", "export"]);
    }

    #[test]
    fn what_cannot_be_read_is_disabled_and_says_so() {
        for text in [
            "memory = 'on'",
            "[memory]\npreset = 'everything'",
            "[memory]\npreset = 1",
            "[memory]\npresets = 'full'",
            "[memory]\npreset = 'full'\nallow = 'delete'",
            "[memory]\nallow = ['everything']",
            "[memory]\npreset = 'full'\nreconcile_tool = 'yes'",
        ] {
            let settings = read(text);
            assert_eq!(settings.authorization, Authorization::disabled(), "{text}");
            assert_eq!(settings.warnings.len(), 1, "{text}");
        }
    }

    #[test]
    fn a_transcript_mirror_cannot_be_granted_and_old_keys_are_told() {
        for text in [
            "[memory]\ntranscript-mirror = true",
            "[memory]\nallow = ['transcript-mirror']",
            "[memory]\nextraction = { every = 'turn' }",
            "[memory]\nlegacyBridge = 'path'",
        ] {
            let settings = read(text);
            assert_eq!(
                settings.authorization.grants(Actor::Person),
                read("").authorization.grants(Actor::Person)
            );
            assert_eq!(settings.warnings.len(), 1, "{text}");
        }
        assert!(read("[memory]\nextraction = true").warnings[0].contains("consent for each session"));
        assert!(read("[memory]\nlegacyBridge = 1").warnings[0].contains("removed"));
    }
}
