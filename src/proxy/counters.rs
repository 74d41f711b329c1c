//! Counts: Prometheus text for `/metrics`, three numbers a workspace for `/agentspine/summary`.
//!
//! Labels are words of closed tables: no path, no model, no id.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agentspine_gate::Digest;
use metrics::{Key, KeyName, Label, Level, Metadata, Recorder as _, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use serde::Serialize;

use super::line::Fate;
use super::reply::How;

/// Buckets of times to the response head, seconds.
const HEAD_SECONDS: [f64; 10] = [0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];
/// How often histograms are folded: samples are kept one by one until then.
pub(super) const UPKEEP: Duration = Duration::from_secs(15);

const REQUESTS: &str = "agentspine_requests_total";
const BLOCKS: &str = "agentspine_blocks_total";
const ANSWERS: &str = "agentspine_answers_total";
const HEAD: &str = "agentspine_head_seconds";
const CONNECTIONS: &str = "agentspine_open_connections";
const STREAMS: &str = "agentspine_open_answers";
const TABLE: Metadata<'static> = Metadata::new("agentspine", Level::INFO, None);

/// What a workspace's client did since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    /// Requests with a prompt.
    pub calls: u64,
    /// Receipts that were consumed.
    pub receipts: u64,
    /// Requests that were refused.
    pub blocks: u64,
}

/// All counts of one server.
pub(crate) struct Counters {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    workspaces: Mutex<HashMap<Digest, Summary>>,
}

impl Counters {
    /// All at zero.
    pub(crate) fn new() -> Self {
        // The builder refuses empty buckets only; without them a histogram becomes a summary.
        let buckets = PrometheusBuilder::new().set_buckets(&HEAD_SECONDS);
        let recorder = buckets.unwrap_or_else(|_| PrometheusBuilder::new()).build_recorder();
        let handle = recorder.handle();
        let counters = Self { recorder, handle, workspaces: Mutex::default() };
        counters.describe();
        counters
    }

    fn describe(&self) {
        let of = |name: &'static str| KeyName::from_const_str(name);
        let to = &self.recorder;
        to.describe_counter(of(REQUESTS), None, "Requests by route and result".into());
        to.describe_counter(of(BLOCKS), None, "Requests that were not sent on, by reason".into());
        to.describe_counter(of(ANSWERS), None, "Answers of upstreams, by how they ended".into());
        to.describe_gauge(of(CONNECTIONS), None, "Client connections that are open".into());
        to.describe_gauge(of(STREAMS), None, "Answers that are being streamed".into());
        let unit = Some(Unit::Seconds);
        to.describe_histogram(of(HEAD), unit, "From a request's head to its answer's head".into());
    }

    /// A request that was answered.
    pub(super) fn request(&self, route: &'static str, result: Fate, head: Duration) {
        let labels = vec![Label::new("route", route), Label::new("result", result.word())];
        self.recorder.register_counter(&Key::from_parts(REQUESTS, labels), &TABLE).increment(1);
        let key = Key::from_parts(HEAD, vec![Label::new("route", route)]);
        self.recorder.register_histogram(&key, &TABLE).record(head.as_secs_f64());
    }

    /// A request that was not sent on.
    pub(super) fn block(&self, family: &'static str, word: String) {
        let labels = vec![Label::new("code", family), Label::new("detail", word)];
        self.recorder.register_counter(&Key::from_parts(BLOCKS, labels), &TABLE).increment(1);
    }

    /// An upstream's answer has begun.
    pub(super) fn begun(&self) {
        self.recorder.register_gauge(&Key::from_static_name(STREAMS), &TABLE).increment(1.0);
    }

    /// An upstream's answer is over.
    pub(super) fn ended(&self, how: How) {
        self.recorder.register_gauge(&Key::from_static_name(STREAMS), &TABLE).decrement(1.0);
        let key = Key::from_parts(ANSWERS, vec![Label::new("end", how.word())]);
        self.recorder.register_counter(&key, &TABLE).increment(1);
    }

    /// How many connections are open.
    pub(super) fn connections(&self, open: u32) {
        self.recorder.register_gauge(&Key::from_static_name(CONNECTIONS), &TABLE).set(f64::from(open));
    }

    /// Changes a workspace's numbers.
    pub(super) fn tally(&self, workspace: Digest, change: impl FnOnce(&mut Summary)) {
        let mut all = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(workspace).or_default());
    }

    /// A workspace's numbers.
    pub(crate) fn summary(&self, workspace: Digest) -> Summary {
        let all = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&workspace).copied().unwrap_or_default()
    }

    /// Prometheus text.
    pub(super) fn text(&self) -> String {
        self.handle.render()
    }

    /// Folds samples; to be called every [`UPKEEP`].
    pub(super) fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}
