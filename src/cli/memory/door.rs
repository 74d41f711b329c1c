//! The memory tools of one directory and one identity, for the command line and for MCP.

use std::path::{Path, PathBuf};

use agentspine_gate::remember::RememberStore;
use agentspine_gate::{Id, Refusal, instructions};
use agentspine_memory::tools::Caller;
use agentspine_memory::{Actor, Capability, Grants, Ledger, MemoryScope, ToolAnswer, Tools};
use serde_json::Value;

use crate::cli::rooms::{Rooms, working_directory};
use crate::config::Config;
use crate::memory::{AtRooms, rules_of};
use crate::report::Failure;

/// An open ledger, and whose it is.
pub(in crate::cli) struct Door {
    rooms: Rooms,
    ledger: Ledger,
    scope: MemoryScope,
    grants: Grants,
    actor: Actor,
    source: Id,
    claude_notes: PathBuf,
}

impl Door {
    /// The person's own, for the working directory.
    pub(in crate::cli) fn of_person(config: &Config) -> Result<Self, Failure> {
        Self::open(config, None, Actor::Person, "cli")
    }

    /// A model's in another program, for a directory.
    pub(in crate::cli) fn of_model(config: &Config, cwd: Option<&Path>) -> Result<Self, Failure> {
        Self::open(config, cwd, Actor::Model, "mcp")
    }

    fn open(config: &Config, cwd: Option<&Path>, actor: Actor, source: &str) -> Result<Self, Failure> {
        let rooms = Rooms::open(config)?;
        let ledger = Ledger::open(&rooms.dir.memory_db()).map_err(|error| {
            Failure::other(format!("The memory ledger: {error}"), "Run: agentspine doctor")
        })?;
        let cwd = working_directory(cwd)?;
        let scope = MemoryScope {
            tenant_id: config.identity.tenant_id.clone(),
            user_id: config.identity.user_id.clone(),
            project_id: Some(instructions::project_id(rooms.seams.fs.as_ref(), &cwd)),
            group_id: None,
        };
        let claude_notes = instructions::claude_notes(rooms.seams.fs.as_ref(), &config.homes, &cwd);
        let source = Id::new(source).map_err(|error| Failure::other(error.to_string(), ""))?;
        let grants = config.memory.authorization.grants(actor);
        Ok(Self { rooms, ledger, scope, grants, actor, source, claude_notes })
    }

    /// Settles what an earlier process left open, where that is allowed. What fails here stays open, and the status says
    /// so.
    pub(in crate::cli) fn settle(&mut self) {
        if !self.grants.allows(Capability::Reconcile) {
            return;
        }
        let now_ms = self.now_ms();
        let _ = self.ledger.reconcile(None, now_ms);
    }

    /// What export and import work on.
    pub(super) fn parts(&mut self) -> (&mut Ledger, &MemoryScope, &Grants) {
        (&mut self.ledger, &self.scope, &self.grants)
    }

    /// Whose memories.
    pub(super) fn scope(&self) -> &MemoryScope {
        &self.scope
    }

    /// Where Claude Code keeps its notes on this project.
    pub(super) fn claude_notes(&self) -> PathBuf {
        self.claude_notes.clone()
    }

    /// Wall clock, milliseconds.
    pub(super) fn now_ms(&self) -> i64 {
        self.rooms.seams.clock.wall_ms()
    }

    /// Must-Remember.
    pub(super) fn remember(&self) -> Result<RememberStore, Refusal> {
        self.rooms.remember()
    }

    /// Calls a tool; its refusal is an answer.
    pub(in crate::cli) fn answer(&mut self, name: &str, arguments: &Value) -> ToolAnswer {
        let caller = Caller {
            scope: self.scope.clone(),
            grants: self.grants.clone(),
            actor: self.actor,
            source: self.source.clone(),
            session: None,
            now_ms: self.rooms.seams.clock.wall_ms(),
            rng: self.rooms.seams.rng.as_ref(),
        };
        let mut host = AtRooms { rooms: &self.rooms, scope: rules_of(&self.scope) };
        Tools::new(&mut self.ledger, &mut host, caller).call(name, arguments)
    }

    /// Calls a tool; its refusal is a failure of the command.
    pub(super) fn call(&mut self, name: &str, arguments: &Value) -> Result<Value, Failure> {
        let answer = self.answer(name, arguments);
        if !answer.is_error {
            return Ok(answer.value);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let error = &answer.value["error"];
        if error.is_object() {
            return Err(Failure::usage(text(&error["message"]), text(&error["advice"])));
        }
        let message = format!("not remembered: {}", text(&answer.value["reason"]));
        Err(Failure::usage(message, text(&answer.value["advice"])))
    }
}
