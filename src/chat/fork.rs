//! `/fork`: the chat goes on in a copy of itself; what was said so far stays in the session it was said in.

use agentspine_gate::Id;

use super::engine::Engine;
use super::new_session_id;
use crate::conversations::Fork;
use crate::report::Failure;

/// Where a chat goes on.
pub(crate) struct Forked {
    /// The session it was.
    pub parent: Id,
    /// The session it is now.
    pub child: Id,
    /// Events they share.
    pub seed: u64,
}

impl Engine {
    /// Goes on in a new session that begins with everything up to the last turn that ended.
    pub(crate) async fn fork_here(&mut self) -> Result<Forked, Failure> {
        if !self.begun {
            return Err(Failure::usage("There is nothing to fork yet", "Send a prompt first"));
        }
        let (parent, child) = (self.binding.scope.session_id.clone(), new_session_id()?);
        let (origin, copy) = (parent.clone(), child.clone());
        let forked = self.rooms.desk.ask(move |at| {
            let now = at.seams.clock.wall_ms();
            let fork = Fork { parent: origin, child: copy.clone(), at: None, now };
            let session = match at.conversations.fork_session(&fork) {
                Ok(session) => session,
                Err(why) => return Ok(Err(why)),
            };
            at.claim(&copy)?;
            Ok(Ok((session, at.read(&copy)?)))
        });
        let (session, held) = forked.await??;
        self.events = held;
        self.binding.scope.session_id = child.clone();
        self.binding.root = session.root;
        Ok(Forked { parent, child, seed: session.seed_length })
    }
}
