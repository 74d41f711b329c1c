//! Cancellation: one switch, any number of listeners.

use tokio::sync::watch;

/// Ends what runs under the [`Cancelled`] handles made with it. Dropping it cancels nothing.
pub struct Canceller(watch::Sender<bool>);

/// Hears of cancellation.
#[derive(Clone)]
pub struct Cancelled(watch::Receiver<bool>);

/// A switch and its listener.
pub fn cancellation() -> (Canceller, Cancelled) {
    let (sender, receiver) = watch::channel(false);
    (Canceller(sender), Cancelled(receiver))
}

impl Canceller {
    /// Cancels, for good.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

impl Cancelled {
    /// Whether it has happened.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until cancelled; for ever where the switch was dropped unused.
    pub async fn wait(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
