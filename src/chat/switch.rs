//! Which session the screen shows: one of those offered at the start, or a copy it goes on in.

use std::sync::Arc;

use agentspine_tui::{AppEvent, Level};

use super::engine::Binding;
use super::fork::Forked;
use super::screen::Screen;
use super::{history, receipts, show};
use crate::conversations::Session;
use crate::report::Failure;
use crate::turn::Rooms;

/// What is open before a session is chosen.
pub(super) struct Waiting {
    pub(super) rooms: Arc<Rooms>,
    pub(super) binding: Binding,
    pub(super) offered: Vec<Session>,
}

impl Screen<'_> {
    /// Asks which session to go on with.
    pub(super) fn offer(&mut self, waiting: Waiting) {
        let choices = waiting.offered.iter().map(show::session).collect();
        self.waiting = Some(waiting);
        self.app(AppEvent::AskSession { choices });
    }

    /// Goes on with the session the person chose.
    pub(super) async fn resume(&mut self, index: usize) -> Result<(), Failure> {
        let Some(Waiting { rooms, mut binding, offered }) = self.waiting.take() else { return Ok(()) };
        let Some(chosen) = offered.into_iter().nth(index) else { return Ok(()) };
        let held = history::resume(&rooms.desk, &mut binding, chosen.id).await?;
        self.open(rooms, binding, held).await
    }

    /// The session is a copy from here on: drafts and receipts are the copy's.
    pub(super) fn forked(&mut self, forked: &Forked) -> Vec<AppEvent> {
        if let Some(work) = &mut self.work {
            work.session = forked.child.clone();
            // The pane's task lives as long as this sender.
            let _ = work.questions.send(receipts::Wanted::Session(forked.child.clone()));
        }
        let text = show::forked(&forked.parent, &forked.child);
        vec![
            AppEvent::SessionNamed { label: forked.child.to_string() },
            AppEvent::Notice { level: Level::Info, text },
        ]
    }
}
