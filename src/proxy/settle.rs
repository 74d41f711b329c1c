//! Settling: every consumed receipt of the proxy is told what became of its call, also where the client just goes away.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use agentspine_gate::{CallOutcome, ReceiptId};
use agentspine_model::{ModelError, RelayBody, StatusCode};
use bytes::Bytes;
use futures_util::Stream;

use crate::turn::Rooms;

/// Records the outcome of one call when it is dropped: what it was told last.
pub(crate) struct Settle {
    rooms: Arc<Rooms>,
    receipt: ReceiptId,
    outcome: CallOutcome,
}

impl Settle {
    /// A call that is about to be made; dropped now, nobody can tell whether it was.
    pub(crate) fn new(rooms: Arc<Rooms>, receipt: ReceiptId) -> Self {
        Self { rooms, receipt, outcome: CallOutcome::Unknown }
    }

    /// It surely did not leave.
    pub(crate) fn not_sent(mut self) {
        self.outcome = CallOutcome::NotSent;
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        let (receipt, outcome) = (self.receipt, self.outcome);
        // A journal that cannot take the row shows the receipt as spent, outcome unknown.
        self.rooms.desk.tell(move |at| drop(at.gate.record_outcome(receipt, outcome)));
    }
}

/// An answer's body on its way through, byte for byte.
pub(crate) struct Answer {
    body: RelayBody,
    settle: Settle,
    at_end: CallOutcome,
    /// Bytes still to come, where the upstream said how many: a server drops such a body without asking for its end.
    left: Option<u64>,
}

impl Answer {
    /// Begins with the head: a part of an answer was interrupted unless its end is seen.
    pub(crate) fn new(body: RelayBody, mut settle: Settle, status: StatusCode, length: Option<u64>) -> Self {
        let at_end = if status.is_success() {
            settle.outcome = CallOutcome::Interrupted;
            CallOutcome::Answered
        } else {
            settle.outcome = CallOutcome::Failed(status.as_u16());
            settle.outcome
        };
        Self { body, settle, at_end, left: length }
    }
}

impl Stream for Answer {
    type Item = Result<Bytes, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = Pin::new(&mut self.body).poll_next(context);
        match &item {
            Poll::Ready(Some(Ok(bytes))) => {
                self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                if self.left == Some(0) {
                    self.settle.outcome = self.at_end;
                }
            }
            Poll::Ready(None) => self.settle.outcome = self.at_end,
            Poll::Ready(Some(Err(_))) => self.settle.outcome = CallOutcome::Cut,
            Poll::Pending => {}
        }
        item
    }
}
