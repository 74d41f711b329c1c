//! Who may do what with memories: capabilities, granted by the person's local configuration alone.
//!
//! A model, a prompt or a recalled text changes nothing here: a [`Grants`] is made by the host from its own
//! configuration and only read by the doors. A preset names what models and other programs may do; at their own command
//! line a person may do everything, unless the preset says otherwise.

use std::collections::BTreeSet;

/// One thing that can be done with memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Search and recall.
    Recall,
    /// Remember.
    SemanticWrite,
    /// Keep whole conversations as memories. Never granted.
    TranscriptMirror,
    /// Forget.
    Delete,
    /// Propose rules for every project.
    GlobalRuleWrite,
    /// Write memories to a file that forgetting does not reach.
    Export,
    /// Put memories away without erasing them.
    Archive,
    /// Attach an external projection.
    Connect,
    /// Settle operations whose outcome is open.
    Reconcile,
}

impl Capability {
    /// Every capability.
    pub const ALL: [Self; 9] = [
        Self::Recall,
        Self::SemanticWrite,
        Self::TranscriptMirror,
        Self::Delete,
        Self::GlobalRuleWrite,
        Self::Export,
        Self::Archive,
        Self::Connect,
        Self::Reconcile,
    ];

    /// Parses the word of the configuration.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// The word of the configuration, such as `semantic-write`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recall => "read-only-recall",
            Self::SemanticWrite => "semantic-write",
            Self::TranscriptMirror => "transcript-mirror",
            Self::Delete => "delete",
            Self::GlobalRuleWrite => "global-rule-write",
            Self::Export => "export",
            Self::Archive => "archive",
            Self::Connect => "connect",
            Self::Reconcile => "reconcile",
        }
    }
}

/// A named set of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// Nothing, for anybody.
    Disabled,
    /// Recall alone, for anybody.
    ReadOnly,
    /// Recall, write, reconcile.
    #[default]
    Standard,
    /// Everything that can be granted.
    Full,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 4] = [Self::Disabled, Self::ReadOnly, Self::Standard, Self::Full];

    /// Parses the word of the configuration.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == word)
    }

    /// The word of the configuration, such as `read-only`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::ReadOnly => "read-only",
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }

    fn capabilities(self) -> BTreeSet<Capability> {
        use Capability::{Recall, Reconcile, SemanticWrite};
        match self {
            Self::Disabled => BTreeSet::new(),
            Self::ReadOnly => BTreeSet::from([Recall]),
            Self::Standard => BTreeSet::from([Recall, SemanticWrite, Reconcile]),
            Self::Full => grantable().collect(),
        }
    }
}

/// Mirroring transcripts is refused by design: nobody can grant it.
fn grantable() -> impl Iterator<Item = Capability> {
    Capability::ALL.into_iter().filter(|one| *one != Capability::TranscriptMirror)
}

/// Who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// The person, at their own command line or screen.
    Person,
    /// A model, or another program that speaks for one.
    Model,
}

/// What one actor may do. `Default` is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    allowed: BTreeSet<Capability>,
    reconcile_tool: bool,
}

/// An act that the local configuration does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the local configuration does not allow this: {} is not granted", .0.as_str())]
pub struct NotGranted(pub Capability);

impl NotGranted {
    /// The next thing to do.
    pub fn advice(self) -> &'static str {
        match self.0 {
            Capability::TranscriptMirror => "whole conversations are never kept as memories",
            _ => "the person grants it in the table [memory] of config.toml: preset, or allow",
        }
    }
}

/// What a person wrote into their configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authorization {
    /// The preset.
    pub preset: Preset,
    /// Capabilities beyond the preset. [`Capability::TranscriptMirror`] among them grants nothing.
    pub allow: BTreeSet<Capability>,
    /// Models are offered `memory_reconcile`.
    pub reconcile_tool: bool,
}

impl Authorization {
    /// What stands where the configuration cannot be read: nothing is granted.
    pub fn disabled() -> Self {
        Self { preset: Preset::Disabled, ..Self::default() }
    }

    /// What this actor may do.
    pub fn grants(&self, actor: Actor) -> Grants {
        let mut allowed = match (self.preset, actor) {
            (Preset::Disabled, _) => return Grants::default(),
            (Preset::Standard, Actor::Person) => grantable().collect(),
            (preset, _) => preset.capabilities(),
        };
        allowed.extend(self.allow.iter().filter(|one| **one != Capability::TranscriptMirror));
        Grants { allowed, reconcile_tool: self.reconcile_tool || actor == Actor::Person }
    }
}

impl Grants {
    /// Whether this is allowed.
    pub fn allows(&self, capability: Capability) -> bool {
        self.allowed.contains(&capability)
    }

    /// The same as a check.
    pub fn check(&self, capability: Capability) -> Result<(), NotGranted> {
        if self.allows(capability) { Ok(()) } else { Err(NotGranted(capability)) }
    }

    /// Whether the reconcile tool is offered.
    pub(crate) fn offers_reconcile(&self) -> bool {
        self.reconcile_tool && self.allows(Capability::Reconcile)
    }

    /// Their words, in a fixed order; `disabled` where there is none.
    pub fn words(&self) -> Vec<&'static str> {
        if self.allowed.is_empty() {
            return vec![Preset::Disabled.as_str()];
        }
        self.allowed.iter().map(|one| one.as_str()).collect()
    }
}
