//! What the memory tools ask of this program: candidates for the person, and injected text that goes with a memory.
//!
//! [`AtDesk`] answers from a chat's own stores, [`AtRooms`] for the command line and MCP.

use agentspine_gate::journal::Vault;
use agentspine_gate::remember::{Proposal, RememberError, RememberScope, RememberStore};
use agentspine_gate::{Id, ReceiptId, Refusal};
use agentspine_memory::MemoryScope;
use agentspine_memory::tools::{Candidate, CandidateKind, Host, HostError};
use serde_json::Value;

use crate::cli::rooms::Rooms;
use crate::conversations::ConversationsError;
use crate::desk::Drawer;
use crate::receipts::{claim, matching};

/// The stores of a running chat.
pub(crate) struct AtDesk<'a> {
    /// What the desk's thread owns.
    pub at: &'a mut Drawer,
    /// Whose rules are proposed.
    pub scope: RememberScope,
}

/// The stores of a command, opened when they are needed.
pub(crate) struct AtRooms<'a> {
    /// State directory and time.
    pub rooms: &'a Rooms,
    /// Whose rules are proposed.
    pub scope: RememberScope,
}

/// The scope of the rules that belong to a scope of memories.
pub(crate) fn rules_of(scope: &MemoryScope) -> RememberScope {
    RememberScope {
        user_id: scope.user_id.clone(),
        tenant_id: scope.tenant_id.clone(),
        project_id: scope.project_id.clone(),
        group_id: scope.group_id.clone(),
        task_id: None,
    }
}

impl Host for AtDesk<'_> {
    fn propose(&mut self, kind: CandidateKind, text: &str) -> Result<Candidate, HostError> {
        let now_ms = self.at.seams.clock.wall_ms();
        propose(self.at.gate.remember(), kind, text, self.scope.clone(), now_ms)
    }

    fn holding(&mut self, memories: &[Id]) -> Result<Vec<Id>, HostError> {
        let receipts = injecting(self.at.gate.vault(), memories).map_err(refused)?;
        self.at.conversations.sessions_holding(&receipts).map_err(|error| unkept(&error))
    }

    fn erase(&mut self, memories: &[Id]) -> Result<(), HostError> {
        let receipts = injecting(self.at.gate.vault(), memories).map_err(refused)?;
        self.at.conversations.erase_spans(&receipts).map(drop).map_err(|error| unkept(&error))
    }
}

impl AtRooms<'_> {
    /// The receipts that injected one of these; a journal that was never made has none.
    fn receipts(&self, memories: &[Id]) -> Result<Vec<ReceiptId>, HostError> {
        injecting(&mut self.rooms.vault().map_err(refused)?, memories).map_err(refused)
    }
}

impl Host for AtRooms<'_> {
    fn propose(&mut self, kind: CandidateKind, text: &str) -> Result<Candidate, HostError> {
        let now_ms = self.rooms.seams.clock.wall_ms();
        propose(&self.rooms.remember().map_err(refused)?, kind, text, self.scope.clone(), now_ms)
    }

    fn holding(&mut self, memories: &[Id]) -> Result<Vec<Id>, HostError> {
        let receipts = self.receipts(memories)?;
        let conversations = self.rooms.conversations().map_err(failed)?;
        conversations.sessions_holding(&receipts).map_err(|error| unkept(&error))
    }

    fn erase(&mut self, memories: &[Id]) -> Result<(), HostError> {
        let receipts = self.receipts(memories)?;
        let mut conversations = self.rooms.conversations().map_err(failed)?;
        conversations.erase_spans(&receipts).map(drop).map_err(|error| unkept(&error))
    }
}

fn propose(
    store: &RememberStore,
    kind: CandidateKind,
    claim: &str,
    scope: RememberScope,
    now_ms: i64,
) -> Result<Candidate, HostError> {
    let word = Id::new(kind.as_str()).ok();
    let proposal = Proposal { claim, scope, any_group: false, kind: word, source_digest: None, now_ms };
    match store.propose(proposal) {
        Ok(proposed) => Ok(Candidate { id: proposed.candidate.id, known: proposed.duplicate }),
        Err(RememberError::Store(refusal)) => Err(refused(refusal)),
        Err(error) => Err(HostError { message: error.to_string(), advice: error.advice().to_owned() }),
    }
}

/// Receipts whose own injected text holds one of these memories.
fn injecting(vault: &mut Vault, memories: &[Id]) -> Result<Vec<ReceiptId>, Refusal> {
    if memories.is_empty() {
        return Ok(Vec::new());
    }
    let holds = |provider: &Value| {
        let items = provider["injected"].as_array();
        items.into_iter().flatten().any(|item| memories.iter().any(|id| item["id"] == id.as_str()))
    };
    matching(vault, |record| claim(record, "providers").as_array().is_some_and(|all| all.iter().any(holds)))
}

fn refused(refusal: Refusal) -> HostError {
    HostError { message: refusal.message, advice: refusal.advice }
}

fn failed(failure: crate::report::Failure) -> HostError {
    let (message, advice) = failure.words();
    HostError { message: message.to_owned(), advice: advice.to_owned() }
}

fn unkept(error: &ConversationsError) -> HostError {
    HostError {
        message: format!("the conversation store: {error}"),
        advice: "check disk space and rights, then: agentspine doctor".to_owned(),
    }
}
