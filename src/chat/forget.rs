//! Forgetting a recalled memory from the pane: a preview of exactly that one, then what the person confirmed.

use std::sync::PoisonError;

use agentspine_gate::remember::RememberScope;
use agentspine_gate::{Id, Refusal};
use agentspine_memory::tools::Caller;
use agentspine_memory::{Actor, MemoryScope, ToolAnswer, Tools};
use agentspine_tui::AppEvent;
use serde_json::json;

use crate::memory::AtDesk;
use crate::turn::Rooms;

/// First step: nothing is forgotten, and the token names this memory alone.
pub(super) async fn preview(rooms: &Rooms, session: Id, scope: RememberScope, id: String) -> AppEvent {
    let wanted = id.clone();
    let answered = tools(rooms, session, scope, move |tools| match Id::new(wanted) {
        Ok(id) => tools.preview_one(&id),
        Err(error) => Err(error.to_string()),
    });
    match answered.await {
        Ok(token) => AppEvent::ForgetPreviewed { id, token },
        Err(line) => AppEvent::Forgotten { id, ok: false, line },
    }
}

/// Second step: the tombstone stands when this returns well.
pub(super) async fn confirm(
    rooms: &Rooms,
    session: Id,
    scope: RememberScope,
    id: String,
    token: String,
) -> AppEvent {
    let arguments = json!({ "preview_token": token, "memory_ids": [id] });
    let answered =
        tools(rooms, session, scope, move |tools| Ok(tools.call("memory_forget_confirm", &arguments)));
    let (ok, line) = match answered.await {
        Ok(answer) => told(&answer),
        Err(line) => (false, line),
    };
    AppEvent::Forgotten { id, ok, line }
}

fn told(answer: &ToolAnswer) -> (bool, String) {
    let done = answer.value["results"].as_array().is_some_and(|results| !results.is_empty());
    if !done {
        return (false, format!("not forgotten: {}", answer.line));
    }
    let left = answer.value["not_erased"]["reason"].as_str();
    match left {
        Some(reason) => (true, format!("forgotten; its injected text is still kept: {reason}")),
        None => (true, "forgotten; transcripts, exports and backups are not reached".to_owned()),
    }
}

/// Runs on the desk's thread, as the person at the screen.
async fn tools<T: Send + 'static>(
    rooms: &Rooms,
    source: Id,
    rules: RememberScope,
    act: impl FnOnce(&mut Tools<'_>) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let ledger = rooms.providers.ledger.clone().ok_or("the memory ledger could not be opened")?;
    let grants = rooms.person.clone();
    let scope = MemoryScope {
        tenant_id: rules.tenant_id.clone(),
        user_id: rules.user_id.clone(),
        project_id: rules.project_id.clone(),
        group_id: rules.group_id.clone(),
    };
    let answered = rooms.desk.ask(move |at| {
        let seams = at.seams.clone();
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = seams.clock.wall_ms();
        let (actor, rng) = (Actor::Person, seams.rng.as_ref());
        let caller = Caller { scope, grants, actor, source, session: None, now_ms, rng };
        Ok(act(&mut Tools::new(&mut ledger, &mut AtDesk { at, scope: rules }, caller)))
    });
    answered.await.map_err(|refusal: Refusal| refusal.message)?
}
