//! Refusals: the closed table of codes and details, and what a person is told.
//!
//! A code is never derived from a message. [`Detail`] is the single source: it knows its [`Code`], its wire text
//! and its exit code, so a refusal cannot carry a pair that does not belong together.

use std::fmt;

use crate::ids::ReceiptId;

/// The five families of refusal, one exit code each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// An instruction file of the host could not be bound.
    Instructions,
    /// A required retrieval provider gave no valid result.
    Provider,
    /// Mandatory text does not fit its budget.
    Budget,
    /// A receipt, its key or the journal refused.
    Receipt,
    /// Anything before those: policy, prompt, state directory.
    Preflight,
}

impl Code {
    /// Every code, in table order.
    pub const ALL: [Self; 5] =
        [Self::Instructions, Self::Provider, Self::Budget, Self::Receipt, Self::Preflight];

    /// Wire text, such as `instructions-failed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions-failed",
            Self::Provider => "provider-failed",
            Self::Budget => "budget-failed",
            Self::Receipt => "receipt-failed",
            Self::Preflight => "preflight-failed",
        }
    }

    /// Process exit code, 10 to 14.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Instructions => 10,
            Self::Provider => 11,
            Self::Budget => 12,
            Self::Receipt => 13,
            Self::Preflight => 14,
        }
    }
}

/// The bound field that differs, for [`Detail::Mismatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// The human text.
    Prompt,
    /// Agent, persona, user, tenant, host, profile, project, task or group.
    Scope,
    /// The session.
    Session,
    /// The working directory.
    Cwd,
    /// The delivery id.
    Delivery,
    /// The policy file's revision.
    PolicyRevision,
    /// The matching policy profile.
    PolicyProfile,
    /// The set or the checksums of active Must-Remember entries.
    MustRemember,
    /// The recomputed instruction budget.
    InstructionBudget,
    /// The body to be sent.
    Request,
    /// An earlier span's text is not what its receipt bound.
    Span,
    /// The receipt belongs to another journal.
    Journal,
}

impl Field {
    /// Every field, in table order.
    pub const ALL: [Self; 12] = [
        Self::Prompt,
        Self::Scope,
        Self::Session,
        Self::Cwd,
        Self::Delivery,
        Self::PolicyRevision,
        Self::PolicyProfile,
        Self::MustRemember,
        Self::InstructionBudget,
        Self::Request,
        Self::Span,
        Self::Journal,
    ];

    /// Wire text, such as `policy-revision`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Scope => "scope",
            Self::Session => "session",
            Self::Cwd => "cwd",
            Self::Delivery => "delivery",
            Self::PolicyRevision => "policy-revision",
            Self::PolicyProfile => "policy-profile",
            Self::MustRemember => "must-remember",
            Self::InstructionBudget => "instruction-budget",
            Self::Request => "request",
            Self::Span => "span",
            Self::Journal => "journal",
        }
    }
}

macro_rules! details {
    ($( $(#[$doc:meta])* $name:ident $( ( $arg:ty ) )? => $code:ident, $text:literal; )+) => {
        /// What exactly failed. The pair `code/detail` is what scripts match on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Detail { $( $(#[$doc])* $name $( ($arg) )?, )+ }

        impl Detail {
            /// The family this detail belongs to.
            pub fn code(self) -> Code {
                match self { $( details!(@pat $name $( $arg )?) => Code::$code, )+ }
            }

            fn word(self) -> &'static str {
                match self { $( details!(@pat $name $( $arg )?) => $text, )+ }
            }

            /// Every wire word with its code, in table order; what the table of the documentation lists.
            pub fn table() -> Vec<(Code, &'static str)> {
                vec![ $( (Code::$code, $text), )+ ]
            }
        }
    };
    (@pat $name:ident $arg:ty) => { Self::$name(_) };
    (@pat $name:ident) => { Self::$name };
}

details! {
    /// The file cannot be read.
    Unreadable => Instructions, "unreadable";
    /// A directory, FIFO, socket, device or pseudo file.
    NotRegular => Instructions, "not-regular";
    /// A symbolic link that local policy does not allow.
    Symlink => Instructions, "symlink";
    /// Another file stands at the path now.
    Replaced => Instructions, "replaced";
    /// The content or the set of documents differs.
    Changed => Instructions, "changed";
    /// The file left its allowed root.
    OutOfScope => Instructions, "out-of-scope";
    /// Not UTF-8, with the offset in the message.
    NonUtf8 => Instructions, "non-utf8";
    /// More documents, directories or bytes than the limits allow.
    TooMany => Instructions, "too-many";
    /// No instruction host is bound.
    HostUnbound => Instructions, "host-unbound";
    /// The host's own configuration cannot be read.
    HostConfig => Instructions, "host-config";
    /// The provider's command does not exist.
    Missing => Provider, "missing";
    /// The provider's command is not an executable regular file.
    NotExecutable => Provider, "not-executable";
    /// A required provider has no result for this turn.
    NotInvoked => Provider, "not-invoked";
    /// The command's SHA-256 is not the one in the policy.
    CommandDigest => Provider, "digest";
    /// A named credential is unset or empty.
    CredentialMissing => Provider, "credential-missing";
    /// The deadline passed.
    Timeout => Provider, "timeout";
    /// The person cancelled.
    Cancelled => Provider, "cancelled";
    /// The provider exited with this status.
    Exit(i32) => Provider, "exit";
    /// The provider was ended by this signal.
    Signal(i32) => Provider, "signal";
    /// More output than the caps allow.
    Oversize => Provider, "oversize";
    /// The result is not one valid result object.
    Malformed => Provider, "malformed";
    /// The result answers another query.
    Echo => Provider, "echo";
    /// An item of another scope.
    OutOfTenant => Provider, "scope";
    /// Mandatory instruction files over the hard limit.
    InstructionBytes => Budget, "instructions";
    /// Must-Remember entries over their budget.
    MustRememberBytes => Budget, "must-remember";
    /// Mandatory parts of the briefing over the limit.
    BriefBytes => Budget, "brief";
    /// The request body over the limit.
    RequestBytes => Budget, "request";
    /// This delivery was consumed before.
    Replay => Receipt, "replay";
    /// This receipt was consumed before.
    Consumed => Receipt, "consumed";
    /// Older than its validity, or of another boot.
    Expired => Receipt, "expired";
    /// The signature does not verify.
    Mac => Receipt, "mac";
    /// A bound field differs.
    Mismatch(Field) => Receipt, "mismatch";
    /// The journal stayed locked for the whole busy timeout.
    JournalBusy => Receipt, "journal-busy";
    /// The journal or its anchor is missing.
    JournalMissing => Receipt, "journal-missing";
    /// The journal is behind or other than its anchor, or key, anchor and journal do not name each other.
    JournalRolledBack => Receipt, "journal-rolled-back";
    /// The journal cannot be read or written.
    JournalIo => Receipt, "journal-io";
    /// The keyring is missing.
    KeyMissing => Receipt, "key-missing";
    /// The keyring's mode is not 0600.
    KeyMode => Receipt, "key-mode";
    /// The keyring belongs to somebody else.
    KeyOwner => Receipt, "key-owner";
    /// The keyring or a key in it has a wrong length or shape.
    KeyLength => Receipt, "key-length";
    /// The policy file is unreadable or invalid.
    PolicyInvalid => Preflight, "policy-invalid";
    /// A profile has a required provider, but this turn's identity matches none.
    PolicyUnmatched => Preflight, "policy-unmatched";
    /// The Must-Remember store does not verify.
    RememberCorrupt => Preflight, "remember-corrupt";
    /// The prompt is empty or too large.
    Prompt => Preflight, "prompt";
    /// A continuation of a conversation this gate has not seen.
    ConversationUnknown => Preflight, "conversation-unknown";
    /// The state directory cannot be used.
    StateDir => Preflight, "state-dir";
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(n) | Self::Signal(n) => write!(f, "{}({n})", self.word()),
            Self::Mismatch(field) => write!(f, "{}({})", self.word(), field.as_str()),
            _ => f.write_str(self.word()),
        }
    }
}

/// A turn that did not reach the model, and why. Holds no prompt, instruction text, claim or credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What failed.
    pub detail: Detail,
    /// One sentence for people: what failed and where.
    pub message: String,
    /// The next thing to do, a command where there is one.
    pub advice: String,
    /// The id drawn at bind; `None` before that.
    pub receipt: Option<ReceiptId>,
}

impl Refusal {
    /// A refusal without a receipt id yet; the gate adds it once the turn is bound.
    pub fn new(detail: Detail, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { detail, message: message.into(), advice: advice.into(), receipt: None }
    }

    /// The family of [`Self::detail`].
    pub fn code(&self) -> Code {
        self.detail.code()
    }

    /// `code/detail`, such as `provider-failed/exit(3)`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.code().as_str(), self.detail)
    }
}
