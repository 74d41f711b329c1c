//! What the screen asks for: every effect of a key, carried out.

use agentspine_gate::turn::InstructionHost;
use agentspine_model::Target;
use agentspine_tui::{self as data, AppEvent, Effect, Level};
use tokio::time::Instant;

use super::cancel::Cancel;
use super::pick::{self, Choice};
use super::screen::{Command, DRAFT_PAUSE, Next, Screen};
use super::{editor, receipts};
use crate::report::{Exit, Failure};
use crate::terminal::{self, Terminal, no_terminal};

impl Screen<'_> {
    /// Carries an effect out. An editor is open until it ends or `told_to_leave`.
    pub(super) async fn perform(
        &mut self,
        effect: Effect,
        terminal: &mut Terminal,
        told_to_leave: impl Future<Output = ()>,
    ) -> Result<Next, Failure> {
        match effect {
            Effect::Send { prompt } => self.start(|cancel| Command::Prompt(prompt, cancel)),
            Effect::Retry { .. } => self.start(Command::Retry),
            Effect::Compact => self.start(Command::Compact),
            Effect::Fork => self.command(Command::Fork),
            Effect::Cancel => {
                if let Some(cancel) = &self.cancel {
                    cancel.cancel();
                }
            }
            Effect::LoadReceipts => self.ask(receipts::Wanted::List(self.turns.clone())),
            Effect::ShowReceipt(id) => self.ask(receipts::Wanted::One(id)),
            Effect::VerifyReceipt(id) => self.ask(receipts::Wanted::Verdict(id)),
            Effect::ChooseInstructionHost(host) => self.bind_host(host),
            Effect::ChooseModel(index) => self.choose_model(index),
            Effect::ChooseSession(index) => self.resume(index).await?,
            Effect::AcceptServer(yes) => self.accept(yes),
            Effect::SaveDraft(text) => self.draft = Some((text, Instant::now() + DRAFT_PAUSE)),
            Effect::Copy(text) => terminal::copy(&text),
            Effect::OpenEditor(text) => return self.edit(&text, terminal, told_to_leave).await,
            Effect::Suspend => {
                Terminal::leave();
                terminal::suspend();
                terminal.retake().map_err(|error| no_terminal(&error))?;
            }
            Effect::ConfirmRemember(id) => {
                if let Some(scope) = self.work.as_ref().map(|work| work.rules.clone()) {
                    self.ask(receipts::Wanted::Confirm(id, scope));
                }
            }
            Effect::Redraw => terminal.forget().map_err(|error| no_terminal(&error))?,
            Effect::Quit => return Ok(Next::Quit),
        }
        Ok(Next::Go)
    }

    /// Binds the chosen host and keeps the choice, so that it is asked for once.
    pub(super) fn bind_host(&mut self, host: data::InstructionHost) {
        let host = match host {
            data::InstructionHost::Claude => InstructionHost::Claude,
            data::InstructionHost::Codex => InstructionHost::Codex,
        };
        self.command(Command::Host(host));
        if let Err(failure) = self.config.keep_instruction_host(host) {
            self.notice(&failure);
        }
    }

    pub(super) fn start(&mut self, command: impl FnOnce(Cancel) -> Command) {
        let cancel = Cancel::new();
        self.cancel = Some(cancel.clone());
        self.command(command(cancel));
    }

    pub(super) fn command(&self, command: Command) {
        if let Some(work) = &self.work {
            // The engine's task lives as long as this sender.
            let _ = work.commands.send(command);
        }
    }

    pub(super) fn ask(&self, wanted: receipts::Wanted) {
        let Some(work) = &self.work else { return };
        // The pane's task lives as long as this sender.
        let _ = work.questions.send(wanted);
    }

    pub(super) fn choose_model(&mut self, index: usize) {
        let Choice::Ask(choices) = &self.choice else { return };
        let Some(name) = choices.get(index) else { return };
        match pick::target(self.config, name) {
            Ok(target) => self.use_model(target),
            Err(failure) => self.notice(&failure),
        }
    }

    pub(super) fn accept(&mut self, yes: bool) {
        if let (true, Some(target)) = (yes, self.found.take()) {
            self.use_model(target);
        }
    }

    /// A local server answered: its first model is offered, and used only once the person says so.
    pub(super) fn found(&mut self, server: &agentspine_model::Found) -> Vec<AppEvent> {
        let Some(model) = server.models.first() else { return Vec::new() };
        match pick::target(self.config, &format!("chat:{model}@{}", server.base_url)) {
            Ok(target) => {
                self.found = Some(target);
                vec![AppEvent::ServerFound { name: format!("{model} at {}", server.base_url) }]
            }
            Err(_) => Vec::new(),
        }
    }

    pub(super) fn use_model(&mut self, target: Target) {
        self.name_model(&target);
        self.command(Command::Model(target));
    }

    pub(super) fn notice(&mut self, failure: &Failure) {
        let (message, advice) = failure.words();
        self.app(AppEvent::Notice { level: Level::Bad, text: format!("{message} {advice}") });
    }

    async fn edit(
        &mut self,
        text: &str,
        terminal: &mut Terminal,
        told_to_leave: impl Future<Output = ()>,
    ) -> Result<Next, Failure> {
        Terminal::leave();
        let mut told = false;
        let leave = async {
            told_to_leave.await;
            told = true;
        };
        let edited = editor::edit(text, self.config.ui.editor.as_deref(), leave).await;
        if told {
            self.save_draft().await;
            return Err(Failure::Told(Exit::Interrupted));
        }
        terminal.retake().map_err(|error| no_terminal(&error))?;
        match edited {
            Ok(text) => self.app(AppEvent::Draft(text)),
            Err(failure) => self.notice(&failure),
        }
        Ok(Next::Go)
    }

    pub(super) async fn save_draft(&mut self) {
        let (Some((text, _)), Some(work)) = (self.draft.take(), &self.work) else { return };
        let session = work.session.clone();
        // A draft that cannot be saved stays in the composer; the next pause tries again.
        let _ = work
            .rooms
            .desk
            .ask(move |at| at.conversations.save_draft(&session, &text).map_err(crate::desk::store))
            .await;
    }
}
