//! The tools a model may call in chat: the memory tools, within a turn's budget. Results are data, neutralised.

use std::sync::PoisonError;

use agentspine_gate::{Id, Refusal};
use agentspine_memory::tools::{self, Caller};
use agentspine_memory::{Actor, Grants, MemoryScope, SessionSource, ToolAnswer, Tools};
use agentspine_model::{AssistantBlock, ToolResult, ToolSpec};
use serde_json::Value;

use super::engine::Binding;
use super::rules;
use crate::desk::Drawer;
use crate::memory::AtDesk;
use crate::turn::Rooms;

/// What keeps a chat's session.
const PERSISTENCE: &str = "conversations";

/// What a turn's tool loop has left.
pub(crate) struct Budget {
    /// Calls that may still carry results.
    pub rounds: usize,
    /// Tool calls that may still run.
    pub calls: usize,
}

/// One tool call of an answer.
pub(crate) struct ToolRun {
    pub id: String,
    pub name: String,
    pub input: Value,
}

impl ToolRun {
    /// What it is about, for one line on the screen.
    pub(crate) fn query(&self) -> String {
        let word = |key: &str| self.input.get(key).and_then(Value::as_str);
        word("query").or_else(|| word("title")).unwrap_or_default().to_owned()
    }
}

/// The tools of every request.
pub(crate) fn specs(grants: &Grants) -> Vec<ToolSpec> {
    let spec = |tool: tools::ToolSpec| ToolSpec {
        name: tool.name.to_owned(),
        description: tool.description,
        parameters: tool.parameters,
    };
    tools::specs(grants).into_iter().map(spec).collect()
}

/// The tool calls of an answer.
pub(crate) fn calls(blocks: &[AssistantBlock]) -> Vec<ToolRun> {
    let call = |block: &AssistantBlock| match block {
        AssistantBlock::ToolUse { id, name, input } => {
            Some(ToolRun { id: id.clone(), name: name.clone(), input: input.clone() })
        }
        AssistantBlock::Text(_) | AssistantBlock::Raw(_) => None,
    };
    blocks.iter().filter_map(call).collect()
}

/// Runs one call. A failure is an answer too: the model reads why.
pub(crate) async fn run(
    rooms: &Rooms,
    binding: &Binding,
    call: &ToolRun,
    budget: &mut Budget,
) -> (ToolResult, String) {
    if budget.calls == 0 {
        let why = "This turn's tool calls are used up; answer with what you have.".to_owned();
        return (result(call, why.clone(), true), why);
    }
    budget.calls -= 1;
    match answer(rooms, binding, call).await {
        Ok(answer) => (result(call, answer.text(), answer.is_error), answer.line),
        Err(why) => (result(call, why.clone(), true), why),
    }
}

fn result(call: &ToolRun, text: String, is_error: bool) -> ToolResult {
    ToolResult { id: call.id.clone(), text, is_error }
}

/// Answers on the desk's thread, where the stores are that a tool may change.
async fn answer(rooms: &Rooms, binding: &Binding, call: &ToolRun) -> Result<ToolAnswer, String> {
    let ledger = rooms.providers.ledger.clone().ok_or("The memory ledger could not be opened.")?;
    let (scope, rules, source) = (scope(binding), rules::scope(binding), binding.scope.session_id.clone());
    let (name, input, grants) = (call.name.clone(), call.input.clone(), rooms.memory.clone());
    let answered = rooms.desk.ask(move |at| {
        let seams = at.seams.clone();
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = seams.clock.wall_ms();
        let session = session(at, &source);
        let caller =
            Caller { scope, grants, actor: Actor::Model, source, session, now_ms, rng: seams.rng.as_ref() };
        Ok(Tools::new(&mut ledger, &mut AtDesk { at, scope: rules }, caller).call(&name, &input))
    });
    answered.await.map_err(|refusal: Refusal| refusal.message)
}

/// The same scope as recall.
fn scope(binding: &Binding) -> MemoryScope {
    MemoryScope {
        tenant_id: binding.identity.tenant_id.clone(),
        user_id: binding.identity.user_id.clone(),
        project_id: Some(binding.scope.project_id.clone()),
        group_id: binding.scope.group_id.clone(),
    }
}

/// What a memory says of the session it was made in.
fn session(at: &Drawer, id: &Id) -> Option<SessionSource> {
    let session = at.conversations.session(id).ok().flatten()?;
    Some(SessionSource {
        created_at_ms: session.created_at,
        cwd: session.cwd.to_string_lossy().into_owned(),
        persistence: Id::new(PERSISTENCE).ok()?,
        revision: session.events,
        parent: None,
        seed_length: 0,
        turn: None,
    })
}
