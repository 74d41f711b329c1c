//! The journal read while others write it, with what the conversation store knows of a call.
//!
//! Invariants: read-only in both stores, and nothing is made. A journal that is not there yet is waited for; one that was
//! replaced, as `state reset` does, is opened anew.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentspine_gate::journal::{Follow, ReceiptRecord, Sighting};
use agentspine_gate::seams::Seams;
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::{Detail, Digest, Id, ReceiptId, Refusal};
use agentspine_tui::Verdict;
use agentspine_tui::watch::{CallDetail, CallRow, CallState, Injected};

use super::{call, claim, detail};
use crate::conversations::Look;
use crate::system;

/// Between two looks at the journal.
pub(crate) const POLL: Duration = Duration::from_millis(150);
/// A reset is done within this.
const RESETTING: Duration = Duration::from_secs(2);
/// Longer than a receipt is valid: then a prepared one has expired.
const VALIDITY: Duration = Duration::from_millis(agentspine_gate::receipt::VALIDITY_MS + 100);

/// What one look found.
#[derive(Debug)]
pub(crate) enum News {
    /// There is no journal yet.
    Waiting,
    /// A journal was opened, the first or another one: these are its newest calls, and nothing else is.
    Opened(Vec<Seen>),
    /// Calls that are new or changed.
    Calls(Vec<Seen>),
}

/// One call as it stands.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Its line.
    pub row: CallRow,
    /// Its rows; `None` where one of them does not verify.
    pub record: Option<Box<ReceiptRecord>>,
}

/// Where the journal is looked for.
#[derive(Debug)]
pub(crate) struct Place {
    /// The state directory.
    pub root: PathBuf,
    /// The project of the working directory, which must not hold it.
    pub project: Option<PathBuf>,
}

/// What is followed.
pub(crate) struct Live {
    root: PathBuf,
    project: Option<PathBuf>,
    seams: Seams,
    /// Calls of before that are shown at first.
    limit: u32,
    session: Option<Id>,
    open: Option<Open>,
    /// When the journal that was followed was moved away.
    lost: Option<Instant>,
    /// Calls whose state changes by time alone, and when.
    aging: Vec<(Instant, ReceiptId)>,
}

struct Open {
    dir: StateDir,
    follow: Follow,
    /// The conversation store, once it is there.
    look: Option<Look>,
}

impl Live {
    /// Follows this person's journal, of one session where it is named. Nothing is opened yet.
    pub(crate) fn new(place: Place, limit: u32, session: Option<Id>) -> Self {
        let Place { root, project } = place;
        Self {
            root,
            project,
            seams: system::seams(),
            limit,
            session,
            open: None,
            lost: None,
            aging: Vec::new(),
        }
    }

    /// Looks once. `None` where nothing happened.
    pub(crate) fn poll(&mut self) -> Result<Option<News>, Refusal> {
        let Some(open) = &mut self.open else { return self.begin_or_wait() };
        let news = match open.follow.news() {
            Ok(news) => news,
            Err(refusal) => {
                // Opened anew by the next look, which refuses where the pieces do not belong together.
                (self.open, self.lost) = (None, Some(Instant::now()));
                let replaced = matches!(refusal.detail, Detail::JournalRolledBack | Detail::JournalMissing);
                return if replaced { Ok(None) } else { Err(refusal) };
            }
        };
        let mut seen = self.seen(news);
        seen.extend(self.aged()?);
        Ok((!seen.is_empty()).then_some(News::Calls(seen)))
    }

    /// While somebody resets the state, its pieces do not belong together for a moment.
    fn begin_or_wait(&mut self) -> Result<Option<News>, Refusal> {
        match self.begin() {
            Err(_) if self.lost.is_some_and(|lost| lost.elapsed() < RESETTING) => Ok(None),
            begun => begun.map(Some),
        }
    }

    fn begin(&mut self) -> Result<News, Refusal> {
        self.aging.clear();
        let Some(dir) = StateDir::find(&self.root, self.project.as_deref())? else {
            return Ok(News::Waiting);
        };
        let Some(mut follow) = Follow::open(&dir, &self.seams)? else { return Ok(News::Waiting) };
        let newest = follow.newest(self.limit, self.session.as_ref().map(Id::as_str))?;
        self.lost = None;
        self.open = Some(Open { dir, follow, look: None });
        Ok(News::Opened(self.seen(newest)))
    }

    fn seen(&mut self, sightings: Vec<Sighting>) -> Vec<Seen> {
        sightings.into_iter().filter_map(|sighting| self.see(sighting)).collect()
    }

    fn see(&mut self, sighting: Sighting) -> Option<Seen> {
        let sort = match &sighting {
            Sighting::Holds(record) if !self.is_asked_for(record) => return None,
            Sighting::Holds(record) => self.sort(record),
            Sighting::Broken { .. } => None,
        };
        let row = call::row(&sighting, sort, self.seams.clock.wall_ms());
        let record = match sighting {
            Sighting::Holds(record) => Some(record),
            Sighting::Broken { .. } => None,
        };
        if let Some(record) = &record {
            let left = self.time_left(&row, record);
            self.aging.retain(|(_, id)| *id != record.id);
            self.aging.extend(left.map(|left| (Instant::now() + left, record.id)));
        }
        Some(Seen { row, record })
    }

    /// How long the call may stay as it is without a new row.
    fn time_left(&self, row: &CallRow, record: &ReceiptRecord) -> Option<Duration> {
        let age = |spent: i64| self.seams.clock.wall_ms().saturating_sub(spent);
        match (row.state, &record.consumed) {
            (CallState::Prepared, _) => Some(VALIDITY),
            (CallState::Underway, Some(spent)) => {
                let left = call::UNDERWAY_MS.saturating_sub(age(spent.at_ms)).clamp(0, call::UNDERWAY_MS);
                Some(Duration::from_millis(left.unsigned_abs()))
            }
            _ => None,
        }
    }

    fn is_asked_for(&self, record: &ReceiptRecord) -> bool {
        let Some(session) = &self.session else { return true };
        claim(record, "sessionId").as_str() == Some(session.as_str())
    }

    /// Calls whose time has come.
    fn aged(&mut self) -> Result<Vec<Seen>, Refusal> {
        let now = Instant::now();
        let (due, rest) = self.aging.drain(..).partition(|(at, _)| *at <= now);
        self.aging = rest;
        let due: Vec<(Instant, ReceiptId)> = due;
        let mut seen = Vec::new();
        for (_, id) in due {
            let sighting = self.open.as_mut().map_or(Ok(None), |open| open.follow.sight(id))?;
            seen.extend(sighting.and_then(|sighting| self.see(sighting)));
        }
        Ok(seen)
    }

    /// A store that cannot be read leaves the sort out; [`Self::whole`] says why.
    fn sort(&mut self, record: &ReceiptRecord) -> Option<String> {
        let session = Id::new(claim(record, "sessionId").as_str()?).ok()?;
        self.look().ok()??.sort(&session, record.id).ok()?
    }

    fn look(&mut self) -> Result<Option<&mut Look>, String> {
        let Some(open) = &mut self.open else { return Ok(None) };
        if open.look.is_none() {
            open.look = Look::open(&open.dir.conversations_db()).map_err(|error| error.to_string())?;
        }
        Ok(open.look.as_mut())
    }

    /// One call whole, with the text it injected; `None` where there is no such receipt.
    pub(crate) fn whole(&mut self, id: &str) -> Result<Option<CallDetail>, Refusal> {
        let Some(receipt) = ReceiptId::parse(id) else { return Ok(Some(detail::unverified(id))) };
        let sighting = self.open.as_mut().map_or(Ok(None), |open| open.follow.sight(receipt))?;
        let record = match sighting {
            None => return Ok(None),
            Some(Sighting::Broken { .. }) => return Ok(Some(detail::unverified(id))),
            Some(Sighting::Holds(record)) => record,
        };
        let sort = self.sort(&record);
        let summary = detail::summary(&record, sort.as_deref(), self.seams.clock.wall_ms());
        Ok(Some(CallDetail { summary, injected: self.injected(&record), receipt: detail::detail(&record) }))
    }

    fn injected(&mut self, record: &ReceiptRecord) -> Injected {
        let nothing = |why: String| Injected::Nothing(why);
        if record.issued.is_none() {
            return nothing("The call was refused before its briefing was made.".to_owned());
        }
        let bound = claim(record, "briefingDigest").as_str().and_then(Digest::parse);
        let Some(bound) = bound else {
            let spans = claim(record, "replayedSpans").as_array().map_or(0, Vec::len);
            return nothing(match spans {
                0 => "This call added no text.".to_owned(),
                n => format!("This call added no text; {n} earlier ones stand in its request again."),
            });
        };
        let found = self.look().and_then(|look| {
            look.map_or(Ok(None), |look| look.span(record.id).map_err(|error| error.to_string()))
        });
        match found {
            Ok(Some(span)) => Injected::Text { check: compared(&span.text, bound), text: span.text },
            Ok(None) => {
                nothing("Its text is not kept: it was forgotten, has expired, or was never sent.".to_owned())
            }
            Err(why) => nothing(why),
        }
    }

    /// Every signature, the chain and the anchor.
    pub(crate) fn verify(&mut self) -> Verdict {
        let Some(open) = &mut self.open else {
            return Verdict { ok: true, text: "nothing to verify yet".to_owned() };
        };
        match open.follow.verify_chain() {
            Ok(chain) => match chain.problem {
                None => Verdict { ok: true, text: format!("chain ok ({} rows), anchor ok", chain.rows) },
                Some(problem) => Verdict { ok: false, text: problem },
            },
            Err(refusal) => Verdict { ok: false, text: refusal.message },
        }
    }
}

/// Whether a kept text is the one that the receipt binds.
fn compared(text: &str, bound: Digest) -> Verdict {
    if Digest::of(text.as_bytes()) == bound {
        Verdict { ok: true, text: "byte for byte as the receipt binds it".to_owned() }
    } else {
        Verdict { ok: false, text: "not what the receipt binds".to_owned() }
    }
}
