//! The fake model behind plain calls: a runtime of its own, so that a test reads as a story without `await`.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::fake_model::{Answer, FakeModel, Recorded};

/// No event of a healthy run takes this long; it ends a test that would hang, and never decides one that passes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A model server.
pub struct Server {
    model: FakeModel,
    runtime: Runtime,
}

impl Server {
    pub fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let model = runtime.block_on(FakeModel::start(script));
        Self { model, runtime }
    }

    /// A server for each dialect with the same script, and the `--model` value that reaches it.
    pub fn of_each_dialect(script: impl Fn() -> Vec<Answer>) -> [(Self, String); 2] {
        let (anthropic, chat) = (Self::start(script()), Self::start(script()));
        let (first, second) = (anthropic.anthropic(), chat.chat());
        [(anthropic, first), (chat, second)]
    }

    pub fn base(&self) -> &str {
        self.model.base()
    }

    pub fn anthropic(&self) -> String {
        format!("anthropic:claude-test@{}", self.base())
    }

    pub fn chat(&self) -> String {
        format!("chat:qwen-test@{}", self.base())
    }

    pub fn push(&self, answer: Answer) {
        self.model.push(answer);
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.model.requests()
    }

    /// Bodies as text, in order of arrival.
    pub fn bodies(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| String::from_utf8(request.body).unwrap()).collect()
    }

    /// Waits for one more request.
    pub fn arrived(&self) {
        self.runtime.block_on(async { timeout(PATIENCE, self.model.arrived()).await }).unwrap();
    }

    /// Waits until the client left one more answer before its end.
    pub fn gone(&self) {
        self.runtime.block_on(async { timeout(PATIENCE, self.model.gone()).await }).unwrap();
    }
}
