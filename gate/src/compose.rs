//! Composing: from a plan, the outcomes of its providers and the host's draft to the exact body and its claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::body::Body;
use crate::brief::{self, Additions, Fence, NewDocument, NewItem};
use crate::failure::{Code, Detail, Field, Refusal};
use crate::held::{Held, Replay};
use crate::ids::Digest;
use crate::instructions::{self, Document};
use crate::mac::MacKey;
use crate::plan::Plan;
use crate::policy::{InstructionBudget, RecallBudget};
use crate::recall::{Outcome, Planned};
use crate::receipt::claims::{
    BoundBudget, BoundDocument, BoundItem, BoundProvider, BoundRemember, CONTRACT, Claims, Delivery,
    DocumentNote, RECEIPT_SCHEMA,
};
use crate::remember::Active;
use crate::select::{Selection, select};
use crate::span::{Draft, Place, Span};
use crate::turn::{CallKind, Injection};

/// Largest request body, bytes.
pub const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The exact body to be sent and everything its receipt will bind. One use: [`crate::admit`] takes it.
pub struct Composed {
    pub(crate) plan: Plan,
    pub(crate) body: Body,
    pub(crate) claims: Claims,
    pub(crate) span: Option<Span>,
}

impl Composed {
    /// The text this call adds, to be stored by the conversation before the call.
    pub fn span(&self) -> Option<&Span> {
        self.span.as_ref()
    }

    /// What the receipt will bind; times and signature come at issue.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }
}

/// What composing needs beside the plan.
pub(crate) struct Inputs<'a> {
    pub(crate) outcomes: &'a [Outcome],
    pub(crate) draft: &'a Draft,
    pub(crate) replays: Vec<Replay<'a>>,
    pub(crate) fence_key: &'a MacKey,
    pub(crate) parent: Option<Arc<Claims>>,
    pub(crate) journal_id: &'a str,
}

/// Puts the body together. Refuses on a failed required provider, a budget, or an unknown conversation.
pub(crate) fn compose(plan: Plan, inputs: &Inputs<'_>) -> Result<Composed, Refusal> {
    let held = Held::read(&inputs.replays);
    let injects = plan.injects();
    let known = !inputs.replays.is_empty() || inputs.parent.is_some();
    let present = instructions::present(&plan.snapshot, &inputs.draft.host_slots);
    let bind = |doc: &Document| bind_document(doc, &held, present.contains(&doc.id), injects, known);
    let documents: Vec<BoundDocument> = plan.snapshot.documents.iter().map(bind).collect();
    let remember = bind_remember(&plan.active, &held, injects);
    known_conversation(&plan, inputs.parent.as_deref(), &documents, &remember)?;
    let pairs = pair(&plan.planned, inputs.outcomes)?;
    let selection = select(&pairs, plan.recall_budget(), &held.items)?;
    let budget = budget(&plan, &documents)?;

    let additions = additions(&plan, &documents, &remember, &selection, &held, injects);
    let withdrawn = [additions.withdrawn_documents.clone(), additions.withdrawn_remember.clone()].concat();
    let span = new_span(&plan, inputs, &additions)?;
    let body = body(inputs, span.as_ref())?;
    let providers =
        pairs.iter().map(|(planned, outcome)| bind_provider(planned, outcome, &selection)).collect();
    let parts = Parts { documents, withdrawn, budget, remember, providers };
    let claims = claims(&plan, inputs, parts, &body, span.as_ref());
    drop(additions);
    Ok(Composed { plan, body, claims, span })
}

fn bind_document(doc: &Document, held: &Held<'_>, shown: bool, injects: bool, known: bool) -> BoundDocument {
    let earlier = held.documents.get(doc.id.as_str()).copied();
    let same = earlier.filter(|(sha256, _)| *sha256 == doc.sha256);
    // What the host shows at the start does not count where another version was told after it.
    let is_present = shown && (earlier.is_none() || same.is_some());
    let state = match (is_present, same, injects, earlier) {
        (true, ..) => Delivery::Present,
        (_, None, true, _) => Delivery::Injected,
        (_, Some(_), ..) | (_, None, false, Some(_)) => Delivery::Replayed,
        (_, None, false, None) => Delivery::Unverified,
    };
    let note = match (doc.cut_by_host, doc.via_link) {
        (true, _) => Some(DocumentNote::CutByHost),
        (false, true) => Some(DocumentNote::SymlinkAllowed),
        (false, false) => None,
    };
    BoundDocument {
        id: doc.id.clone(),
        scope: doc.layer,
        bytes: doc.bytes,
        sha256: doc.sha256,
        rendered_sha256: doc.rendered_sha256,
        identity: doc.identity.0,
        state,
        span: earlier.filter(|_| state == Delivery::Replayed).map(|(_, receipt)| receipt),
        changed_since_parent: known && same.is_none() && !is_present,
        note,
    }
}

/// A call that adds nothing must hold everything mandatory already. Only a continuation may lack what appeared or changed
/// since its turn; the next turn injects that.
fn known_conversation(
    plan: &Plan,
    parent: Option<&Claims>,
    documents: &[BoundDocument],
    remember: &[BoundRemember],
) -> Result<(), Refusal> {
    let (lacks, strict) =
        (|state| state == Delivery::Unverified, plan.bound.request.kind != CallKind::Continuation);
    let had_document = |now: &&BoundDocument| {
        let was = |old: &BoundDocument| old.id == now.id && old.sha256 == now.sha256 && !lacks(old.state);
        strict || parent.is_none_or(|turn| turn.documents.iter().any(was))
    };
    let had_rule = |now: &&BoundRemember| {
        let was = |old: &BoundRemember| old.id == now.id && !lacks(old.state);
        strict || parent.is_some_and(|turn| turn.must_remember.iter().any(was))
    };
    let document = documents.iter().filter(|doc| lacks(doc.state)).find(had_document);
    let rule = remember.iter().filter(|entry| lacks(entry.state)).find(had_rule);
    let missing = document.map(|doc| doc.id.as_str()).or(rule.map(|entry| entry.id.as_str()));
    let request = &plan.bound.request;
    let may_lack = request.kind == CallKind::Side || request.injection == Injection::Paused;
    let Some(missing) = missing.filter(|_| !may_lack) else { return Ok(()) };
    Err(Refusal::new(
        Detail::ConversationUnknown,
        format!("This call goes on with a conversation that is not kept here whole: {missing} is not in it."),
        "Send a new message: the next turn injects what is missing.",
    ))
}

fn bind_remember(active: &[Active], held: &Held<'_>, injects: bool) -> Vec<BoundRemember> {
    let bind = |entry: &Active| {
        let same = held.remember.get(&entry.id) == Some(&(entry.version, entry.checksum));
        let state = match (same, injects) {
            (true, _) => Delivery::Replayed,
            (false, true) => Delivery::Injected,
            (false, false) => Delivery::Unverified,
        };
        BoundRemember { id: entry.id.clone(), version: entry.version, checksum: entry.checksum, state }
    };
    active.iter().map(bind).collect()
}

/// Every planned provider with its outcome. Without one, or with a failed required one, the turn is refused.
fn pair<'a>(
    planned: &'a [Planned],
    outcomes: &'a [Outcome],
) -> Result<Vec<(&'a Planned, &'a Outcome)>, Refusal> {
    planned.iter().map(|plan| outcome_of(plan, outcomes).map(|outcome| (plan, outcome))).collect()
}

fn outcome_of<'a>(planned: &Planned, outcomes: &'a [Outcome]) -> Result<&'a Outcome, Refusal> {
    let id = &planned.provider.id;
    let mine = |o: &&Outcome| o.provider_id == *id && o.query_digest == planned.query.query_digest;
    let Some(outcome) = outcomes.iter().find(mine) else {
        return Err(blocked(planned, Detail::NotInvoked, "it has no result for this turn"));
    };
    match &outcome.result {
        Err(failure) if planned.provider.required || planned.provider.fail_closed => {
            let detail =
                if failure.detail.code() == Code::Provider { failure.detail } else { Detail::Malformed };
            Err(blocked(planned, detail, &failure.message))
        }
        _ => Ok(outcome),
    }
}

fn blocked(planned: &Planned, detail: Detail, why: &str) -> Refusal {
    let id = &planned.provider.id;
    Refusal::new(
        detail,
        format!("Required provider {id} gave no result: {why}"),
        format!(
            "Mend provider {id} and send again, or change the policy that requires it: agentspine preflight-policy --show"
        ),
    )
}

fn bind_provider(planned: &Planned, outcome: &Outcome, selection: &Selection<'_>) -> BoundProvider {
    let id = &planned.provider.id;
    let of = |list: &[(&crate::ids::Id, &crate::recall::Item)]| -> Vec<BoundItem> {
        let mine = list.iter().filter(|(provider, _)| *provider == id);
        mine.map(|(_, item)| BoundItem { id: item.id.clone(), revision: item.revision.clone() }).collect()
    };
    let rejected = outcome
        .result
        .as_ref()
        .map_or(0, |answer| answer.rejected.saturating_add(answer.screened_out.len() as u64));
    BoundProvider {
        id: id.clone(),
        query_digest: outcome.query_digest,
        status: outcome.status(planned.provider.required),
        reason: outcome.reason(),
        latency_ms: outcome.latency_ms,
        injected: of(&selection.injected),
        replayed: of(&selection.replayed),
        left_out: selection
            .left_out
            .get(id)
            .map(|ids| ids.iter().map(|id| (*id).clone()).collect())
            .unwrap_or_default(),
        rejected,
    }
}

/// The budget of the documents this call injects, or the refusal that names every size and the command.
pub(crate) fn budget(plan: &Plan, documents: &[BoundDocument]) -> Result<BoundBudget, Refusal> {
    let InstructionBudget { standard_bytes, hard_limit_bytes } = plan.instruction_budget();
    let injected = || documents.iter().filter(|doc| doc.state == Delivery::Injected);
    let used_bytes: u64 = injected().map(|doc| doc.bytes).sum();
    if used_bytes > hard_limit_bytes {
        let profile = plan.profile.as_ref().map(|own| format!(" --profile {}", own.id)).unwrap_or_default();
        let sizes: Vec<String> = injected().map(|doc| format!("{} {} B", doc.id, doc.bytes)).collect();
        return Err(Refusal::new(
            Detail::InstructionBytes,
            format!(
                "Instruction files need {used_bytes} bytes, the limit is {hard_limit_bytes}: {}.",
                sizes.join(", ")
            ),
            format!(
                "Shorten them, or raise your local limit: agentspine preflight-policy --set instructionBudget.hardLimitBytes={}{profile} --confirm-local-policy",
                used_bytes.next_power_of_two()
            ),
        ));
    }
    let mode = if used_bytes > standard_bytes {
        format!("{}-required-overflow", plan.instruction_host.as_str())
    } else {
        "standard".to_owned()
    };
    let overflow_bytes = used_bytes.saturating_sub(standard_bytes);
    Ok(BoundBudget { hard_limit_bytes, mode, overflow_bytes, standard_bytes, used_bytes })
}

fn additions<'a>(
    plan: &'a Plan,
    documents: &[BoundDocument],
    remember: &[BoundRemember],
    selection: &Selection<'a>,
    held: &Held<'_>,
    injects: bool,
) -> Additions<'a> {
    if !injects {
        return Additions::default();
    }
    let new_documents =
        plan.snapshot.documents.iter().zip(documents).filter(|(_, b)| b.state == Delivery::Injected);
    let new_remember = plan.active.iter().zip(remember).filter(|(_, b)| b.state == Delivery::Injected);
    let current: BTreeSet<&str> = documents.iter().map(|doc| doc.id.as_str()).collect();
    let active = |id: &crate::ids::Id| remember.iter().any(|entry| entry.id == *id);
    Additions {
        documents: new_documents
            .map(|(document, _)| NewDocument {
                document,
                replaces: held.documents.contains_key(document.id.as_str()),
            })
            .collect(),
        withdrawn_documents: held
            .documents
            .keys()
            .filter(|id| !current.contains(**id))
            .map(ToString::to_string)
            .collect(),
        remember: new_remember.map(|(entry, _)| entry).collect(),
        withdrawn_remember: held.remember.keys().filter(|id| !active(id)).map(ToString::to_string).collect(),
        items: selection.injected.iter().map(|(provider, item)| NewItem { provider, item }).collect(),
    }
}

/// The span of what this call adds; `None` where it adds nothing. Without a place for it there is no call.
fn new_span(plan: &Plan, inputs: &Inputs<'_>, additions: &Additions<'_>) -> Result<Option<Span>, Refusal> {
    if additions.is_empty() {
        return Ok(None);
    }
    let place: Place = inputs.draft.slots.last().ok_or_else(broken)?.place;
    let conversation = plan.bound.request.scope.session_id.as_str();
    let text = brief::render(additions, &Fence { key: inputs.fence_key, conversation, place });
    Ok(text.map(|text| Span { place, receipt: plan.bound.id, text }))
}

fn broken() -> Refusal {
    Refusal::new(
        Detail::Mismatch(Field::Request),
        "The request could not be put together: the draft's slots do not fit its body.",
        "This is a defect of agentspine; please report it with: agentspine doctor --json",
    )
}

fn body(inputs: &Inputs<'_>, span: Option<&Span>) -> Result<Body, Refusal> {
    let last = inputs.draft.slots.len().saturating_sub(1);
    let mut texts: Vec<(usize, &str)> =
        inputs.replays.iter().map(|r| (r.slot, r.span.text.as_str())).collect();
    texts.extend(span.map(|span| (last, span.text.as_str())));
    let body = if texts.is_empty() {
        inputs.draft.body.clone()
    } else {
        let body = inputs.draft.splice(&texts).map_err(|_| broken())?;
        serde_json::from_slice::<serde::de::IgnoredAny>(&body).map_err(|_| broken())?;
        Body::new(body)
    };
    if body.len() > REQUEST_BYTES_MAX {
        return Err(Refusal::new(
            Detail::RequestBytes,
            format!("The request has {} bytes; the limit is {REQUEST_BYTES_MAX}.", body.len()),
            "Start a new session: agentspine chat",
        ));
    }
    Ok(body)
}

struct Parts {
    documents: Vec<BoundDocument>,
    withdrawn: Vec<String>,
    budget: BoundBudget,
    remember: Vec<BoundRemember>,
    providers: Vec<BoundProvider>,
}

fn claims(plan: &Plan, inputs: &Inputs<'_>, parts: Parts, body: &Body, span: Option<&Span>) -> Claims {
    let request = &plan.bound.request;
    let (identity, scope) = (&request.identity, &request.scope);
    Claims {
        schema: RECEIPT_SCHEMA.to_owned(),
        contract: CONTRACT.to_owned(),
        id: plan.bound.id,
        kid: String::new(),
        journal_id: inputs.journal_id.to_owned(),
        agent_id: identity.agent_id.clone(),
        persona_id: identity.persona_id.clone(),
        user_id: identity.user_id.clone(),
        tenant_id: identity.tenant_id.clone(),
        host: request.host.as_str().to_owned(),
        instruction_host: plan.instruction_host.as_str().to_owned(),
        profile_id: identity.profile_id.clone(),
        session_id: scope.session_id.clone(),
        project_id: scope.project_id.clone(),
        task_id: scope.task_id.clone(),
        group_id: scope.group_id.clone(),
        cwd_digest: plan.bound.cwd_digest,
        kind: request.kind,
        parent: inputs.parent.as_ref().map(|turn| turn.id),
        retry_of: request.retry_of,
        paused: request.injection == Injection::Paused,
        delivery_id: request.delivery_id.clone(),
        prompt_digest: prompt_digest(plan, inputs.parent.as_deref()),
        endpoint: request.endpoint.clone(),
        model: request.model.clone(),
        client_body_digest: request.client_body_digest,
        request_digest: body.digest(),
        documents: parts.documents,
        withdrawn: parts.withdrawn,
        instruction_budget: parts.budget,
        policy_revision: plan.policy_revision,
        policy_profile_digest: plan.profile_digest(),
        remember_revision: plan.remember_revision,
        must_remember: parts.remember,
        providers: parts.providers,
        replayed_spans: inputs.replays.iter().map(|replay| replay.span.receipt).collect(),
        briefing_digest: span.map(|span| Digest::of(span.text.as_bytes())),
        created_at: String::new(),
        expires_at: String::new(),
        boot: String::new(),
        issued_boottime_ms: 0,
    }
}

/// A continuation whose host does not know the human text takes it from its turn.
fn prompt_digest(plan: &Plan, parent: Option<&Claims>) -> Option<Digest> {
    let inherited = || match plan.bound.request.kind {
        CallKind::Continuation => parent.and_then(|turn| turn.prompt_digest),
        CallKind::Turn | CallKind::Subagent | CallKind::Side => None,
    };
    plan.bound.prompt_digest.or_else(inherited)
}

impl Plan {
    /// Whether this call may add a span: new human text and subagents do, a retry carries what it had.
    pub(crate) fn injects(&self) -> bool {
        let request = &self.bound.request;
        matches!(request.kind, CallKind::Turn | CallKind::Subagent)
            && request.retry_of.is_none()
            && request.injection == Injection::On
    }

    fn recall_budget(&self) -> RecallBudget {
        self.profile.as_ref().map_or_else(RecallBudget::default, |profile| profile.recall_budget)
    }

    fn instruction_budget(&self) -> InstructionBudget {
        let own = self.profile.as_ref().and_then(|profile| profile.instruction_budget);
        own.unwrap_or_else(|| InstructionBudget::default_for(self.instruction_host))
    }

    pub(crate) fn profile_digest(&self) -> Option<Digest> {
        self.profile.as_ref().map(crate::policy::Profile::digest)
    }
}
