//! The fake model for tests that are not async themselves: a server on a thread of its own.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::fake_model::{Answer, FakeModel, Recorded};

/// Nothing here takes this long; a test that waits so long has failed.
const DEADLINE: Duration = Duration::from_mins(1);

/// A running server.
pub struct Served {
    runtime: Runtime,
    model: FakeModel,
}

impl Served {
    pub fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let model = runtime.block_on(FakeModel::start(script));
        Self { runtime, model }
    }

    /// A server for each dialect with the same script, and the `--model` value that reaches it.
    pub fn of_each_dialect(script: impl Fn() -> Vec<Answer>) -> [(Self, String); 3] {
        [Self::anthropic, Self::chat, Self::responses].map(|model| {
            let server = Self::start(script());
            let model = model(&server);
            (server, model)
        })
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

    pub fn responses(&self) -> String {
        format!("responses:gpt-test@{}", self.base())
    }

    pub fn push(&self, answer: Answer) {
        self.model.push(answer);
    }

    /// Bodies as text, in order of arrival.
    pub fn bodies(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| String::from_utf8(request.body).unwrap()).collect()
    }

    /// What `--model` takes.
    pub fn name(&self) -> String {
        format!("chat:fake@{}/v1", self.model.base())
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.model.requests()
    }

    /// Waits for one more request.
    pub fn arrived(&self) {
        self.within("a request", self.model.arrived());
    }

    /// Waits until the client left one more answer before its end.
    pub fn gone(&self) {
        self.within("the client to leave", self.model.gone());
    }

    fn within(&self, what: &str, waiting: impl Future<Output = ()>) {
        let waited = self.runtime.block_on(async { tokio::time::timeout(DEADLINE, waiting).await });
        waited.unwrap_or_else(|_| panic!("waited {DEADLINE:?} for {what}"));
    }
}
