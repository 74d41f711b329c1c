//! The path of one proxied call: what it asks, the gate, the upstream.

use std::sync::Arc;

use agentspine_gate::{Detail, Refusal};

use super::behind::{Behind, Inbound, Outgoing, Passing};

/// The rooms that a proxied call passes through.
pub(crate) struct House;

/// What a secret stands for.
pub(crate) struct Workspace;

impl Behind for House {
    type Workspace = Workspace;

    fn find(&self, _secret: &str) -> Option<Arc<Workspace>> {
        None
    }

    async fn serve(&self, workspace: Arc<Workspace>, request: Inbound) -> Outgoing {
        serve(self, &workspace, request).await
    }

    async fn pass(&self, _workspace: Arc<Workspace>, _request: Passing) -> Outgoing {
        Outgoing::Blocked(unfinished())
    }
}

/// Walks the path for one request.
#[expect(clippy::unused_async, reason = "placeholder: the path itself is async")]
pub(crate) async fn serve(_house: &House, _workspace: &Arc<Workspace>, _request: Inbound) -> Outgoing {
    Outgoing::Blocked(unfinished())
}

fn unfinished() -> Refusal {
    Refusal::new(Detail::ConversationUnknown, "This build cannot send proxied calls.", "agentspine doctor")
}
