//! Flags that several commands share, and how their values are parsed.

use agentspine_gate::turn::InstructionHost;
use agentspine_gate::{Id, ids::IdError};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::config::Flags;

/// Who asks, where the configuration file does not say it.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Identity")]
pub(crate) struct IdentityFlags {
    /// Agent id [default: host-agent:default]
    #[arg(long, value_name = "ID", value_parser = id)]
    agent: Option<Id>,
    /// Persona id
    #[arg(long, value_name = "ID", value_parser = id)]
    persona: Option<Id>,
    /// User id [default: local-user]
    #[arg(long, value_name = "ID", value_parser = id)]
    user: Option<Id>,
    /// Tenant id [default: local-tenant]
    #[arg(long, value_name = "ID", value_parser = id)]
    tenant: Option<Id>,
    /// Profile id [default: default]
    #[arg(long, value_name = "ID", value_parser = id)]
    profile: Option<Id>,
}

impl IdentityFlags {
    /// The identity layer of the flags.
    pub(crate) fn flags(&self) -> Flags {
        Flags {
            agent: self.agent.clone(),
            persona: self.persona.clone(),
            user: self.user.clone(),
            tenant: self.tenant.clone(),
            profile: self.profile.clone(),
            ..Flags::default()
        }
    }
}

/// Parses an id.
pub(crate) fn id(text: &str) -> Result<Id, IdError> {
    Id::new(text)
}

/// Parses `claude` or `codex`.
pub(crate) fn instruction_host() -> impl TypedValueParser<Value = InstructionHost> {
    PossibleValuesParser::new(["claude", "codex"]).map(|name| match name.as_str() {
        "codex" => InstructionHost::Codex,
        _ => InstructionHost::Claude,
    })
}
