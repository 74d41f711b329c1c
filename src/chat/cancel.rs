//! One switch a turn: the person's interrupt, heard by recall, by the path and by the stream.

use std::sync::Arc;

use agentspine_recall::{Cancelled, Canceller, cancellation};

/// A cancellation that can be pulled and heard from any place.
#[derive(Clone)]
pub(crate) struct Cancel {
    switch: Arc<Canceller>,
    heard: Cancelled,
}

impl Cancel {
    /// A switch nobody has pulled.
    pub(crate) fn new() -> Self {
        let (switch, heard) = cancellation();
        Self { switch: Arc::new(switch), heard }
    }

    /// Pulls it, for good.
    pub(crate) fn cancel(&self) {
        self.switch.cancel();
    }

    /// Whether it was pulled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.heard.is_cancelled()
    }

    /// Waits until it is pulled.
    pub(crate) async fn cancelled(&self) {
        self.heard.clone().wait().await;
    }

    /// A listener for the providers.
    pub(crate) fn listener(&self) -> Cancelled {
        self.heard.clone()
    }
}
