//! Issue, consumption and outcome, of any number of calls at once: one commit and one anchor for all, a receipt for each.
//!
//! Invariants: a call that is refused fails no other; everything that a receipt binds is read again after all of the
//! group were issued and before any of them is spent.

use serde_json::{Value, json};

use crate::compose::{self, Composed};
use crate::failure::{Detail, Field, Refusal};
use crate::fresh::Fresh;
use crate::gate::Gate;
use crate::ids::ReceiptId;
use crate::journal::Consumption;
use crate::policy::Profile;
use crate::receipt::claims::Claims;
use crate::receipt::{Consumed, Prepared, Receipt, VALIDITY_MS, canonical};
use crate::recheck::{same, verify_presented, verify_unchanged};
use crate::remember::Active;
use crate::turn::TurnRequest;

/// What became of an admitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The answer came to its end.
    Answered,
    /// The request surely did not leave.
    NotSent,
    /// The model server answered with this HTTP status.
    Failed(u16),
    /// The stream broke off.
    Cut,
    /// The person interrupted it.
    Interrupted,
    /// It may or may not have been sent.
    Unknown,
}

impl CallOutcome {
    fn row(self) -> Value {
        let (word, status) = match self {
            Self::Answered => ("answered", None),
            Self::NotSent => ("not-sent", None),
            Self::Failed(status) => ("failed", Some(status)),
            Self::Cut => ("cut", None),
            Self::Interrupted => ("interrupted", None),
            Self::Unknown => ("unknown", None),
        };
        json!({ "outcome": word, "status": status })
    }
}

/// A receipt about to be spent: what it was issued for, and the host's view of the turn now.
pub type Offer<'a> = (Receipt<Prepared>, &'a Composed, &'a TurnRequest);

impl Gate {
    /// Signs and stores the prepared receipt of a composed call.
    pub fn issue(&mut self, composed: &Composed) -> Result<Receipt<Prepared>, Refusal> {
        only(self.issue_all(&[composed], &mut Vec::new()))
    }

    /// [`Self::issue`] for several calls and with the outcomes of earlier ones, all with one commit; the answers in the
    /// order of the calls. Outcomes that were written down are taken out of the list; until they are, their calls are
    /// shown as unknown.
    pub fn issue_all(
        &mut self,
        calls: &[&Composed],
        outcomes: &mut Vec<(ReceiptId, CallOutcome)>,
    ) -> Vec<Result<Receipt<Prepared>, Refusal>> {
        let each = match self.issue_as(calls, outcomes) {
            Ok(receipts) => {
                outcomes.clear();
                receipts
            }
            Err(why) => calls.iter().map(|_| Err(why.clone())).collect(),
        };
        let told = |(call, issued): (&&Composed, Result<_, Refusal>)| {
            issued.map_err(|why| self.refuse(call.plan.bound.id, &call.plan.bound.request, why))
        };
        calls.iter().zip(each).map(told).collect()
    }

    fn issue_as(
        &mut self,
        calls: &[&Composed],
        outcomes: &[(ReceiptId, CallOutcome)],
    ) -> Result<Vec<Result<Receipt<Prepared>, Refusal>>, Refusal> {
        let claims = calls.iter().map(|call| self.dated(call)).collect::<Result<Vec<_>, _>>()?;
        // A receipt that has no form of its own refuses its own call.
        let texts: Vec<Result<String, Refusal>> = claims.iter().map(text).collect();
        let outcomes: Vec<_> = outcomes.iter().map(|(receipt, outcome)| (*receipt, outcome.row())).collect();
        let written = claims.iter().zip(&texts);
        let rows: Vec<_> =
            written.filter_map(|(claims, text)| Some((claims.id, text.as_deref().ok()?))).collect();
        let mut signed = self.vault.issue_all(&outcomes, &rows)?.into_iter();
        let mut receipt = |(claims, text): (Claims, Result<String, Refusal>)| {
            let (text, signed) = (text?, signed.next().ok_or_else(lost)?);
            Ok(Receipt::new(claims, text.into(), signed))
        };
        Ok(claims.into_iter().zip(texts).map(&mut receipt).collect())
    }

    /// The claims of a call with key and times.
    fn dated(&mut self, call: &Composed) -> Result<Claims, Refusal> {
        let mut claims = call.claims.clone();
        let wall = self.seams.clock.wall_ms();
        claims.kid.clone_from(&self.vault.newest_keyring()?.current().kid);
        claims.created_at = rfc3339(wall);
        claims.expires_at = rfc3339(wall.saturating_add_unsigned(VALIDITY_MS));
        claims.boot = self.seams.clock.boot_id();
        claims.issued_boottime_ms = self.seams.clock.boottime_ms();
        Ok(claims)
    }

    /// Reads everything bound again and spends the receipt, durably, once. `request` is the host's view of the turn now.
    /// Anything different refuses with what changed, and the receipt is void.
    pub fn consume(
        &mut self,
        receipt: Receipt<Prepared>,
        composed: &Composed,
        request: &TurnRequest,
    ) -> Result<Receipt<Consumed>, Refusal> {
        only(self.consume_all(vec![(receipt, composed, request)]))
    }

    /// [`Self::consume`] for several calls, all with one commit and one raise of the anchor; the answers in the order of
    /// the calls. Policy and files are read again once, for all of them.
    pub fn consume_all(&mut self, calls: Vec<Offer<'_>>) -> Vec<Result<Receipt<Consumed>, Refusal>> {
        let mut fresh = Fresh::default();
        let verified: Vec<_> = calls.iter().map(|offer| self.verify(offer, &mut fresh)).collect();
        let body = |(receipt, ..): &Offer<'_>| json!({ "requestDigest": receipt.claims().request_digest });
        let bodies: Vec<Value> = calls.iter().map(body).collect();
        let offered = calls.iter().zip(&bodies).zip(&verified).filter(|(_, verified)| verified.is_ok());
        let group: Vec<_> = offered.map(|(((receipt, ..), body), _)| spending(receipt, body)).collect();
        let mut spent = match self.vault.consume_all(&group) {
            Ok(spent) => spent,
            Err(why) => group.iter().map(|_| Err(why.clone())).collect(),
        }
        .into_iter();
        drop(group);

        let told = |((receipt, _, request), verified): (Offer<'_>, Result<(), Refusal>)| {
            let id = receipt.id();
            let row = verified.and_then(|()| spent.next().unwrap_or_else(|| Err(lost())));
            match row.and_then(|row| receipt.spent(&row)) {
                Ok(receipt) => {
                    self.claims.keep_if_asked(receipt.shared_claims());
                    Ok(receipt)
                }
                Err(refusal) => {
                    self.void_row(id, &refusal);
                    Err(self.refuse(id, request, refusal))
                }
            }
        };
        calls.into_iter().zip(verified).map(told).collect()
    }

    /// Whether a receipt is what was issued for this body and this turn, and still is what it binds.
    fn verify(&mut self, (receipt, composed, request): &Offer<'_>, fresh: &mut Fresh) -> Result<(), Refusal> {
        let (signed, bytes) = receipt.signed();
        self.vault.verify(signed, bytes)?;
        same(receipt.id() == composed.claims.id, Field::Request, "The body is another call's")?;
        self.verify_time(receipt.claims())?;
        verify_presented(receipt.claims(), &composed.plan.bound, request, &self.seams)?;
        self.verify_fresh(receipt.claims(), composed, request, fresh)
    }

    fn verify_time(&self, claims: &Claims) -> Result<(), Refusal> {
        let age = self.seams.clock.boottime_ms().checked_sub(claims.issued_boottime_ms);
        let same_boot = claims.boot == self.seams.clock.boot_id();
        if same_boot && age.is_some_and(|age| age <= VALIDITY_MS) {
            return Ok(());
        }
        Err(Refusal::new(
            Detail::Expired,
            format!("Receipt {} is older than {} s of this boot.", claims.id.short(), VALIDITY_MS / 1000),
            "Send again: a new receipt is issued.",
        ))
    }

    /// Policy, Must-Remember and every document, read again and compared with what the receipt binds.
    fn verify_fresh(
        &mut self,
        claims: &Claims,
        composed: &Composed,
        request: &TurnRequest,
        fresh: &mut Fresh,
    ) -> Result<(), Refusal> {
        let (revision, profile) = self.profile(request, fresh)?;
        same(revision == claims.policy_revision, Field::PolicyRevision, "The policy file was changed")?;
        let digest = profile.as_ref().map(Profile::digest);
        same(digest == claims.policy_profile_digest, Field::PolicyProfile, "The policy profile was changed")?;
        let active = self.active(request, fresh)?;
        let checksums = |entry: &Active| (entry.id.clone(), entry.version, entry.checksum);
        let bound =
            claims.must_remember.iter().map(|entry| (entry.id.clone(), entry.version, entry.checksum));
        same(
            active.iter().map(checksums).eq(bound),
            Field::MustRemember,
            "The Must-Remember entries changed",
        )?;
        let snapshot = self.snapshot(request, &composed.plan.bound.cwd, profile.as_ref(), fresh)?;
        verify_unchanged(&composed.plan.snapshot, &snapshot)?;
        let budget = compose::budget(&composed.plan, &claims.documents)?;
        same(budget == claims.instruction_budget, Field::InstructionBudget, "The instruction budget changed")
    }

    /// Records what became of an admitted call. A consumed receipt without it is shown as "spent, outcome unknown".
    pub fn record_outcome(&mut self, receipt: ReceiptId, outcome: CallOutcome) -> Result<(), Refusal> {
        self.record_outcomes(&[(receipt, outcome)])
    }

    /// [`Self::record_outcome`] of several calls, with one commit.
    pub fn record_outcomes(&mut self, outcomes: &[(ReceiptId, CallOutcome)]) -> Result<(), Refusal> {
        self.issue_as(&[], outcomes).map(drop)
    }
}

fn spending<'a>(receipt: &'a Receipt<Prepared>, body: &'a Value) -> Consumption<'a> {
    let Claims { id, host, session_id, delivery_id, .. } = receipt.claims();
    Consumption { receipt: *id, host, session: session_id, delivery: delivery_id, body }
}

fn only<T>(answers: Vec<Result<T, Refusal>>) -> Result<T, Refusal> {
    answers.into_iter().next().unwrap_or_else(|| Err(lost()))
}

fn text(claims: &Claims) -> Result<String, Refusal> {
    let text = canonical::to_bytes(claims).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        Refusal::new(Detail::JournalIo, "The receipt has no canonical form.", "Run: agentspine doctor --json")
    })
}

fn lost() -> Refusal {
    Refusal::new(Detail::JournalIo, "The journal gave no answer for this receipt.", "Run: agentspine doctor")
}

fn rfc3339(wall_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(wall_ms).map_or_else(|_| String::from("-"), |at| at.to_string())
}
