//! Must-Remember from the chat: wording that proposes a rule, and the candidates that wait for the person.
//!
//! A proposal is made only after the turn's receipt was consumed, and activates nothing.

use agentspine_gate::Id;
use agentspine_gate::remember::{CandidateStatus, Proposal, RememberScope, capture};
use agentspine_tui::{self as data, AppEvent, Level};

use super::engine::Binding;
use crate::desk::Desk;

/// What came of wording that asks to remember.
pub(crate) enum Rule {
    /// It waits for the person; `known` where the same rule waits or applies already.
    Proposed { id: Id, known: bool },
    /// The store or its screen did not take it: why, and what to do.
    NotTaken { why: String },
}

/// Whose rules a chat shows and proposes.
pub(super) fn scope(binding: &Binding) -> RememberScope {
    RememberScope {
        user_id: binding.identity.user_id.clone(),
        tenant_id: binding.identity.tenant_id.clone(),
        project_id: Some(binding.scope.project_id.clone()),
        group_id: binding.scope.group_id.clone(),
        task_id: None,
    }
}

/// Proposes the rule a prompt asks to remember; `None` where it asks for nothing.
pub(super) async fn propose(desk: &Desk, binding: &Binding, prompt: &str) -> Option<Rule> {
    let (claim, scope) = (capture(prompt)?.to_owned(), scope(binding));
    let proposed = desk.ask(move |at| {
        let now_ms = at.seams.clock.wall_ms();
        let proposal =
            Proposal { claim: &claim, scope, any_group: false, kind: None, source_digest: None, now_ms };
        Ok(at.gate.remember().propose(proposal))
    });
    Some(match proposed.await {
        Ok(Ok(proposed)) => Rule::Proposed { id: proposed.candidate.id, known: proposed.duplicate },
        Ok(Err(error)) => Rule::NotTaken { why: format!("{error}. {}", error.advice()) },
        Err(refusal) => Rule::NotTaken { why: refusal.to_string() },
    })
}

/// One line that says what came of it.
pub(super) fn line(rule: &Rule) -> String {
    match rule {
        Rule::Proposed { id, known: false } => {
            format!(
                "proposed as a rule; to put it in every turn here: agentspine remember-confirm {id} --confirm-local-user"
            )
        }
        Rule::Proposed { id, known: true } => format!("this rule is known already: {id}"),
        Rule::NotTaken { why } => format!("not proposed as a rule: {why}"),
    }
}

/// The same for the screen, where one key confirms.
pub(super) fn notice(rule: &Rule) -> AppEvent {
    let (level, text) = match rule {
        Rule::Proposed { known: false, .. } => (
            Level::Info,
            "Proposed as a rule for every turn here. Nothing is active yet: F4, then c, confirms it."
                .to_owned(),
        ),
        Rule::Proposed { known: true, .. } | Rule::NotTaken { .. } => (Level::Warn, line(rule)),
    };
    AppEvent::Notice { level, text }
}

/// The candidates this chat's turns would carry, had the person confirmed them.
pub(super) async fn waiting(desk: &Desk, scope: RememberScope) -> Result<Vec<AppEvent>, String> {
    let listed = desk.ask(|at| at.gate.remember().list()).await.map_err(|refusal| refusal.to_string())?;
    let here = |of: &RememberScope| {
        (&of.user_id, &of.tenant_id) == (&scope.user_id, &scope.tenant_id)
            && (of.project_id.is_none() || of.project_id == scope.project_id)
            && (of.group_id.is_none() || of.group_id == scope.group_id)
    };
    let waiting = listed
        .candidates
        .into_iter()
        .filter(|one| one.status == CandidateStatus::PendingConfirmation && here(&one.scope));
    let rows = waiting.map(|one| data::Candidate { id: one.id.to_string(), text: one.claim }).collect();
    Ok(vec![AppEvent::Candidates(rows)])
}

/// Activates a candidate, as the person asked.
pub(super) async fn confirm(desk: &Desk, id: String, scope: RememberScope) -> Result<Vec<AppEvent>, String> {
    let id = Id::new(id).map_err(|error| error.to_string())?;
    let done = desk.ask(move |at| {
        let now = at.seams.clock.wall_ms();
        Ok(at.gate.remember().confirm(&id, None, now))
    });
    done.await
        .map_err(|refusal| refusal.to_string())?
        .map_err(|error| format!("{error}. {}", error.advice()))?;
    let text = "Remembered. It is in every turn from now on.".to_owned();
    let mut events = vec![AppEvent::Notice { level: Level::Good, text }];
    events.extend(waiting(desk, scope).await?);
    Ok(events)
}
