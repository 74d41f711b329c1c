//! The demo model: embedded, deterministic, and plain about not being a real one.
//!
//! It reads only the admitted body, as a server would, so what it says it was given is what really was in the request.

use std::collections::VecDeque;

use crate::event::ModelEvent;

/// The whole answer to a body of the Anthropic shape.
pub(crate) fn answer(body: &[u8]) -> VecDeque<ModelEvent> {
    let _ = body;
    VecDeque::new()
}
