//! Settling: every consumed receipt of the proxy is told what became of its call, also where the client just goes away.

use std::sync::Arc;

use agentspine_gate::{CallOutcome, ReceiptId};
use hyper::StatusCode;

use super::reply::{How, Outcome};
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

    /// The upstream answers with this status; the answer's end settles it.
    pub(crate) fn with_answer(self, status: StatusCode) -> Outcome {
        Outcome::new(move |end| self.settled(status, end.how))
    }

    fn settled(mut self, status: StatusCode, how: How) {
        self.outcome = match how {
            _ if !status.is_success() => CallOutcome::Failed(status.as_u16()),
            How::Whole => CallOutcome::Answered,
            How::Cut => CallOutcome::Cut,
            How::Interrupted => CallOutcome::Interrupted,
        };
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        self.rooms.desk.settle(self.receipt, self.outcome);
    }
}
