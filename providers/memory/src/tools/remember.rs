//! `memory_remember`: a memory for the ledger, or a candidate for the person.

use agentspine_gate::{Digest, Id};
use rusqlite::OptionalExtension as _;
use serde_json::{Value, json};

use super::{CandidateKind, ToolAnswer, ToolError, Tools, arguments};
use crate::authorize::Actor;
use crate::ledger::StoreError;
use crate::operation::State;
use crate::provenance::Provenance;
use crate::record::{Kind, NewMemory, Origin, Trust};
use crate::remember::{RememberError, Remembered, Settled};
use crate::text::Screened;

/// What makes the memories, by who acts; a part of the operation's identity.
const EXTRACTOR_PERSON: &str = "memory-cli/v1";
const EXTRACTOR_MODEL: &str = "memory-tool/v1";

impl Tools<'_> {
    pub(super) fn remember(&mut self, asked: arguments::Remember) -> Result<ToolAnswer, ToolError> {
        use arguments::AnyKind;
        let kind = match asked.kind {
            AnyKind::Rule => return Ok(self.propose(CandidateKind::Rule, &asked)),
            AnyKind::Taboo => return Ok(self.propose(CandidateKind::Taboo, &asked)),
            AnyKind::Decision => Kind::Decision,
            AnyKind::Preference => Kind::Preference,
            AnyKind::WorkUnit => Kind::WorkUnit,
        };
        let new = self.new_memory(kind, asked)?;
        let answer = match self.store(&new) {
            Ok(done) if done.settled == Settled::Forgotten => {
                self.not_remembered("failed", &Why::forgotten())
            }
            Ok(done) => self.remembered(&done),
            Err(error @ RememberError::Conflict) => self.not_remembered("conflict", &Why::of(&error)),
            Err(RememberError::Store(error)) => return Err(error.into()),
            Err(error) => self.not_remembered("failed", &Why::of(&error)),
        };
        Ok(answer)
    }

    /// A rule of the person's own words; nothing of it binds yet.
    fn propose(&mut self, kind: CandidateKind, asked: &arguments::Remember) -> ToolAnswer {
        let claim = claim(&asked.title, &asked.summary);
        let proposed = match self.host.propose(kind, &claim) {
            Ok(proposed) => proposed,
            Err(error) => {
                let why = Why { reason: error.message, advice: error.advice };
                return self.not_remembered("failed", &why);
            }
        };
        let status = if proposed.known { "replayed" } else { "pending" };
        let value = json!({
            "status": status,
            "memory_id": proposed.id,
            "scope": self.scope_word(),
            "note": "A proposal. It is in no briefing and binds nothing until the person confirms it.",
        });
        ToolAnswer::done(value, format!("{} proposed ({status})", kind.as_str()))
    }

    fn new_memory(&self, kind: Kind, asked: arguments::Remember) -> Result<NewMemory, StoreError> {
        let arguments::Remember { title, summary, tags, .. } = asked;
        let (trust, extractor) = match self.caller.actor {
            Actor::Person => (Trust::Explicit, EXTRACTOR_PERSON),
            Actor::Model => (Trust::Derived, EXTRACTOR_MODEL),
        };
        let session = self.caller.session.clone();
        // A tool call is no range of events: it stands at the beginning of what is the session's own.
        let seq = session.as_ref().map_or(0, |session| session.seed_length.saturating_add(1));
        let origin = Origin {
            source: self.caller.source.clone(),
            from_seq: seq,
            through_seq: seq,
            range_key: range_key(&title, &summary, &tags),
            extractor: Id::new(extractor).map_err(|_| StoreError::Corrupt)?,
        };
        Ok(NewMemory {
            kind,
            title,
            summary,
            tags,
            subject: None,
            trust,
            origin,
            created_at_ms: self.caller.now_ms,
            provenance: Provenance { session, ..Provenance::default() },
            relations: Vec::new(),
        })
    }

    /// What was forgotten is remembered anew where the person says so themselves; never because a model does.
    fn store(&mut self, new: &NewMemory) -> Result<Remembered, RememberError> {
        if self.caller.actor == Actor::Person {
            return self.ledger.remember_anew(new, &self.caller.scope);
        }
        let text = Screened::of(new)?;
        match self.same_words(new, &text)? {
            Some(memory_id) => {
                Ok(Remembered { memory_id, settled: Settled::Replayed, redacted: text.redacted })
            }
            None => self.ledger.remember(new, &self.caller.scope),
        }
    }

    /// A live memory that says exactly the same, so that models that tell each other's words make no copies.
    fn same_words(&self, new: &NewMemory, text: &Screened) -> Result<Option<Id>, StoreError> {
        let mut found = None;
        for trust in Trust::ALL {
            let digest = text.digest(&NewMemory { trust, ..new.clone() }).to_hex();
            let sql = "SELECT o.memory_id FROM memory_operation o JOIN memory_record r USING (memory_id)
                       JOIN memory_scope s ON s.no = r.scope_no
                       WHERE o.payload_digest = ? AND s.digest = ? AND r.kind = ? AND r.state = ? LIMIT 1";
            let key =
                [&digest, &self.caller.scope.digest().to_hex(), new.kind.as_str(), State::Applied.as_str()];
            let id = self.ledger.db.prepare_cached(sql)?.query_row(key, |row| row.get::<_, String>(0));
            found = found.or(id.optional()?);
        }
        found.map(|id| Id::new(id).map_err(|_| StoreError::Corrupt)).transpose()
    }

    fn remembered(&self, done: &Remembered) -> ToolAnswer {
        let status = match done.settled {
            Settled::Applied => "applied",
            Settled::Replayed | Settled::Forgotten => "replayed",
            Settled::Uncertain => "uncertain",
        };
        let mut value = json!({ "status": status, "memory_id": done.memory_id, "scope": self.scope_word() });
        if !done.redacted.is_empty() {
            value["redacted"] = json!(done.redacted);
        }
        ToolAnswer::done(value, status.to_owned())
    }

    fn not_remembered(&self, status: &str, why: &Why) -> ToolAnswer {
        let value = json!({
            "status": status,
            "memory_id": Value::Null,
            "scope": self.scope_word(),
            "reason": why.reason,
            "advice": why.advice,
        });
        ToolAnswer { value, is_error: true, line: format!("not remembered: {}", why.reason) }
    }
}

/// Why nothing was remembered; never the text.
struct Why {
    reason: String,
    advice: String,
}

impl Why {
    fn of(error: &RememberError) -> Self {
        let reason = error.to_string();
        let reason = reason.strip_prefix("not remembered: ").unwrap_or(&reason).to_owned();
        Self { reason, advice: error.advice().to_owned() }
    }

    fn forgotten() -> Self {
        Self {
            reason: "the person forgot this".to_owned(),
            advice: "they alone can have it remembered again: agentspine memory remember".to_owned(),
        }
    }
}

/// The same words twice are one operation, whichever call brings them.
fn range_key(title: &str, summary: &str, tags: &[String]) -> String {
    let mut words = vec![title, summary];
    words.extend(tags.iter().map(String::as_str));
    Digest::of(words.join("\0").as_bytes()).to_hex()
}

/// A title that the rule does not repeat belongs to the rule.
pub(crate) fn claim(title: &str, summary: &str) -> String {
    let (title, summary) = (title.trim(), summary.trim());
    if title.is_empty() || summary.contains(title) {
        summary.to_owned()
    } else if summary.is_empty() || title.contains(summary) {
        title.to_owned()
    } else {
        format!("{title}: {summary}")
    }
}
