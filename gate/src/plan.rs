//! The plan of a bound turn: what was read fresh for it, and what its providers are asked.

use std::sync::Arc;

use crate::failure::Refusal;
use crate::ids::{Digest, Id};
use crate::instructions::Snapshot;
use crate::policy::{Adapter, Network, Profile, Provider};
use crate::recall::{Planned, QUERY_SCHEMA_V1, QUERY_SCHEMA_V2, Query};
use crate::remember::Active;
use crate::turn::{Bound, CallKind, Injection, InstructionHost};

/// Id of the embedded provider that always runs.
pub const LEDGER_PROVIDER: &str = "ledger";

/// A bound turn with its snapshot, rules, profile and queries. Only [`crate::Gate::plan`] makes one.
pub struct Plan {
    pub(crate) bound: Bound,
    pub(crate) instruction_host: InstructionHost,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) policy_revision: u64,
    pub(crate) profile: Option<Profile>,
    pub(crate) remember_revision: u64,
    pub(crate) active: Arc<Vec<Active>>,
    pub(crate) planned: Vec<Planned>,
}

impl Plan {
    /// The providers to run, in the profile's order.
    pub fn queries(&self) -> &[Planned] {
        &self.planned
    }

    /// The mandatory documents and what the host leaves out.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }
}

/// The providers of this call: the profile's, and the embedded ledger unless the profile lists it.
pub(crate) fn providers(bound: &Bound, profile: Option<&Profile>) -> Result<Vec<Planned>, Refusal> {
    let recalls = match bound.request.kind {
        // A retry carries the spans it had; nobody is asked again.
        CallKind::Turn => bound.request.retry_of.is_none(),
        CallKind::Subagent => profile.is_some_and(|profile| profile.subagent_recall),
        CallKind::Continuation | CallKind::Side => false,
    };
    if !recalls || bound.request.injection == Injection::Paused {
        return Ok(Vec::new());
    }
    let mut list: Vec<Provider> = profile.map(|profile| profile.providers.clone()).unwrap_or_default();
    if !list.iter().any(|provider| provider.adapter == Adapter::LedgerV1) {
        list.extend(embedded_ledger());
    }
    let deadlines = profile.map(|profile| profile.deadlines).unwrap_or_default();
    let plan = |provider: Provider| {
        let class = if provider.required { deadlines.required_ms } else { deadlines.optional_ms };
        let deadline_ms = provider.timeout_ms.min(class);
        let query = query(bound, &provider).sealed()?;
        Ok(Planned { deadline_ms, query, prompt: bound.request.prompt.clone(), provider })
    };
    list.into_iter().map(plan).collect()
}

fn embedded_ledger() -> Option<Provider> {
    Some(Provider {
        id: Id::new(LEDGER_PROVIDER).ok()?,
        adapter: Adapter::LedgerV1,
        required: false,
        fail_closed: false,
        timeout_ms: 5000,
        command: std::path::PathBuf::new(),
        args: Vec::new(),
        credential_env: Vec::new(),
        send_prompt: false,
        command_sha256: None,
        network: Network::Allowed,
    })
}

fn query(bound: &Bound, provider: &Provider) -> Query {
    let (identity, scope) = (&bound.request.identity, &bound.request.scope);
    let schema = if provider.adapter == Adapter::MnemoCommandV2 { QUERY_SCHEMA_V2 } else { QUERY_SCHEMA_V1 };
    Query {
        schema,
        provider_id: provider.id.clone(),
        agent_id: identity.agent_id.clone(),
        persona_id: identity.persona_id.clone(),
        user_id: identity.user_id.clone(),
        tenant_id: identity.tenant_id.clone(),
        host: bound.request.host.as_str().to_owned(),
        profile_id: identity.profile_id.clone(),
        session_id: scope.session_id.clone(),
        project_id: scope.project_id.clone(),
        group_id: scope.group_id.clone(),
        task_id: scope.task_id.clone(),
        cwd_digest: bound.cwd_digest,
        prompt_digest: bound.prompt_digest.unwrap_or(Digest::of(b"")),
        requested: "current-effective-truth",
        query_digest: Digest([0; 32]),
    }
}
