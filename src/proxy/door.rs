//! The way of one request, top to bottom: may it speak, where does it go, whose is it, what comes back.

use std::sync::Arc;
use std::time::Instant;

use agentspine_gate::ids::hex;
use agentspine_gate::{Digest, ReceiptId};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};

use super::behind::{Behind, Inbound, Outgoing, Passing, Relay};
use super::block::{self, Answer, Envelope};
use super::body::Room;
use super::counters::Counters;
use super::guard::{Judged, Word};
use super::headers::{self, RECEIPT, WORKSPACE};
use super::line::{Fate, Line, Log, ms_since, now_ms};
use super::peer::{self, Names};
use super::refused::Refused;
use super::reply::{End, How, Outcome, ReplyBody};
use super::route::{self, Own, PassPath, PromptPath, Route};
use super::{body, own};

/// What every request of a server meets.
pub(super) struct Door<B> {
    /// The house.
    pub behind: Arc<B>,
    /// Names of this server.
    pub names: Names,
    /// Counts.
    pub counters: Arc<Counters>,
    /// The log.
    pub log: Log,
    /// Tells this daemon from the next one.
    pub nonce: String,
    /// What all bodies together may take.
    pub room: Room,
}

/// One request, as far as the log may know it.
struct Visit {
    arrived: Instant,
    head_only: bool,
    envelope: Envelope,
    route: Option<Route>,
    workspace: Option<Digest>,
    bytes_in: usize,
}

/// What a request comes to, where the server does not refuse it.
enum Done {
    Own(Answer),
    Passed(Outgoing),
}

impl<B: Behind> Door<B> {
    /// Answers one request.
    pub(super) async fn answer(
        self: Arc<Self>,
        word: Arc<Word>,
        judged: Judged,
        request: Request<Incoming>,
    ) -> Response<ReplyBody> {
        let (parts, body) = request.into_parts();
        let mut visit = Visit {
            arrived: Instant::now(),
            head_only: parts.method == Method::HEAD,
            envelope: Envelope::guess(parts.uri.path(), &parts.headers),
            route: None,
            workspace: None,
            bytes_in: 0,
        };
        let done = match judged.refused {
            Some(refused) => Err(refused),
            None => self.walk(&parts, body, &mut visit).await,
        };
        // A refused request's body may be unread: nothing can follow it.
        let last = judged.last || done.is_err();
        let mut response = self.respond(visit, done, word);
        if last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn walk(&self, parts: &Parts, body: Incoming, visit: &mut Visit) -> Result<Done, Refused> {
        peer::check(parts, &self.names)?;
        let (secret, path) = route::split(parts.uri.path());
        let route = route::find(&parts.method, path)?;
        visit.route = Some(route);
        if route == Route::Own(Own::Health) {
            return Ok(Done::Own(own::health(&self.nonce)));
        }
        let Some(secret) = secret_of(parts, secret, route) else {
            return without_workspace(route);
        };
        let Some(workspace) = self.behind.find(secret) else {
            return without_workspace(route);
        };
        let digest = Digest::of(secret.as_bytes());
        visit.workspace = Some(digest);
        match route {
            Route::Own(Own::Health) => Ok(Done::Own(own::health(&self.nonce))),
            Route::Own(Own::Metrics) => Ok(Done::Own(own::metrics(&self.counters))),
            Route::Own(Own::Summary) => Ok(Done::Own(own::summary(&self.counters, digest))),
            Route::Pass(path) => self.pass(path, workspace, parts, &body).await,
            Route::Prompt(path) => self.serve(path, workspace, parts, body, visit).await,
        }
    }

    async fn pass(
        &self,
        path: PassPath,
        workspace: Arc<B::Workspace>,
        parts: &Parts,
        body: &Incoming,
    ) -> Result<Done, Refused> {
        if body::is_announced(body) {
            return Err(Refused::Body);
        }
        let (query, headers) = (query(parts), headers::of_request(&parts.headers));
        Ok(Done::Passed(self.behind.pass(workspace, Passing { path, query, headers }).await))
    }

    async fn serve(
        &self,
        path: PromptPath,
        workspace: Arc<B::Workspace>,
        parts: &Parts,
        body: Incoming,
        visit: &mut Visit,
    ) -> Result<Done, Refused> {
        visit.envelope = path.envelope();
        self.tally(visit, |summary| summary.calls += 1);
        // Held until the answer's head: by then the upstream has the body.
        let (body, _room) = body::read(&self.room, &parts.headers, body).await?;
        visit.bytes_in = body.len();
        let (query, headers) = (query(parts), headers::of_request(&parts.headers));
        let inbound = Inbound { path, query, headers, body };
        Ok(Done::Passed(self.behind.serve(workspace, inbound).await))
    }

    fn tally(&self, visit: &Visit, change: impl FnOnce(&mut super::counters::Summary)) {
        if let Some(workspace) = visit.workspace {
            self.counters.tally(workspace, change);
        }
    }

    fn respond(
        self: Arc<Self>,
        visit: Visit,
        done: Result<Done, Refused>,
        word: Arc<Word>,
    ) -> Response<ReplyBody> {
        let (envelope, fresh) = (visit.envelope, fresh());
        match done {
            Ok(Done::Own(answer)) => self.whole(visit, word, Fate::Own, None, answer),
            Ok(Done::Passed(Outgoing::Relayed(relay))) => self.relayed(visit, word, relay),
            Ok(Done::Passed(Outgoing::Blocked(refusal))) => {
                self.count_block(&visit, refusal.code().as_str(), block::label(refusal.detail));
                let answer = block::blocked(envelope, &refusal, &fresh);
                self.whole(visit, word, Fate::Blocked, refusal.receipt, answer)
            }
            Ok(Done::Passed(Outgoing::Unreadable(why))) => {
                self.count_block(&visit, REFUSED, "unreadable".to_owned());
                let answer = block::unreadable(envelope, &why, &fresh);
                self.whole(visit, word, Fate::Refused, None, answer)
            }
            Ok(Done::Passed(Outgoing::UpstreamFailed { receipt, error })) => {
                self.count_receipt(&visit, receipt);
                let answer = block::failed(envelope, receipt, &error, &fresh);
                self.whole(visit, word, Fate::Failed, receipt, answer)
            }
            Err(why) => {
                self.count_block(&visit, REFUSED, why.word().to_owned());
                let answer = block::refused(envelope, why, &fresh);
                self.whole(visit, word, Fate::Refused, None, answer)
            }
        }
    }

    fn count_block(&self, visit: &Visit, family: &'static str, word: String) {
        self.counters.block(family, word);
        self.tally(visit, |summary| summary.blocks += 1);
    }

    fn count_receipt(&self, visit: &Visit, receipt: Option<ReceiptId>) {
        if receipt.is_some() {
            self.tally(visit, |summary| summary.receipts += 1);
        }
    }

    /// An answer of our own.
    fn whole(
        self: Arc<Self>,
        visit: Visit,
        word: Arc<Word>,
        fate: Fate,
        receipt: Option<ReceiptId>,
        answer: Answer,
    ) -> Response<ReplyBody> {
        let Answer { status, headers, body } = answer;
        let reason = headers.get("agentspine-block").and_then(|reason| reason.to_str().ok());
        let line = visit.line(fate, status.as_u16(), receipt, reason);
        self.counters.request(line.route, fate, visit.arrived.elapsed());
        let outcome = Outcome::new(move |end| {
            word.answered();
            self.log.line(&line.ended(visit.arrived, end));
        });
        let body = if visit.head_only { ReplyBody::none(outcome) } else { ReplyBody::whole(body, outcome) };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    /// An upstream's answer.
    fn relayed(self: Arc<Self>, visit: Visit, word: Arc<Word>, relay: Relay) -> Response<ReplyBody> {
        let Relay { receipt, status, headers, body, mut outcome } = relay;
        self.count_receipt(&visit, receipt);
        let line = visit.line(Fate::Relayed, status.as_u16(), receipt, None);
        self.counters.request(line.route, Fate::Relayed, visit.arrived.elapsed());
        self.counters.begun();
        let told = Outcome::new(move |end| {
            word.answered();
            outcome.tell(end);
            self.counters.ended(end.how);
            self.log.line(&line.ended(visit.arrived, end));
        });
        let mut passed = headers::of_response(&headers);
        if let Some(receipt) = receipt {
            block::put(&mut passed, RECEIPT, &receipt.to_string());
        }
        let body = if visit.head_only {
            ReplyBody::none(told)
        } else {
            ReplyBody::streamed(body, status, &passed, visit.envelope, told)
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = passed;
        response
    }
}

/// Without a workspace nothing is sent on. A warm-up needs no answer of the upstream's.
fn without_workspace(route: Route) -> Result<Done, Refused> {
    match route {
        Route::Pass(PassPath::Hello) => Ok(Done::Own(own::hello())),
        _ => Err(Refused::Workspace),
    }
}

/// Family of the server's own refusals, beside the gate's codes.
const REFUSED: &str = "proxy-refused";

impl Visit {
    fn line(&self, result: Fate, status: u16, receipt: Option<ReceiptId>, reason: Option<&str>) -> Line {
        Line {
            at: now_ms(),
            event: "request",
            route: self.route.map_or("none", Route::word),
            result,
            status,
            reason: reason.map(str::to_owned),
            receipt: receipt.map(|receipt| receipt.to_string()),
            bytes_in: self.bytes_in,
            bytes_out: 0,
            head_ms: ms_since(self.arrived),
            total_ms: 0,
            end: How::Interrupted.word(),
        }
    }
}

impl Line {
    fn ended(mut self, arrived: Instant, end: End) -> Self {
        self.bytes_out = end.bytes;
        self.total_ms = ms_since(arrived);
        self.end = end.how.word();
        self
    }
}

/// The workspace's secret: its header, else the path's prefix; for our own pages a bearer too.
fn secret_of<'a>(parts: &'a Parts, in_path: Option<&'a str>, route: Route) -> Option<&'a str> {
    let mut said = parts.headers.get_all(&WORKSPACE).into_iter();
    match (said.next(), said.next()) {
        (Some(one), None) => one.to_str().ok(),
        // Two of them: nobody can tell whose it is.
        (Some(_), Some(_)) => None,
        (None, _) => in_path.or_else(|| bearer(parts).filter(|_| matches!(route, Route::Own(_)))),
    }
}

fn bearer(parts: &Parts) -> Option<&str> {
    parts.headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

fn query(parts: &Parts) -> Option<String> {
    parts.uri.query().map(str::to_owned)
}

/// 128 random bits for an answer that has no receipt.
pub(super) fn fresh() -> String {
    let mut bytes = [0u8; 16];
    // Zeros where the system has none: a name for support requests, nothing depends on it.
    let _ = getrandom::fill(&mut bytes);
    hex(&bytes)
}
