//! The gate: one door for each step, in the order of the path.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use crate::compose::{self, Composed, Inputs};
use crate::failure::{Detail, Field, Refusal};
use crate::fresh::{Fresh, Where, Whose};
use crate::held;
use crate::ids::{Digest, ReceiptId};
use crate::instructions::Snapshot;
use crate::journal::{ReceiptRecord, RowKind, Vault};
use crate::kept::KeptClaims;
use crate::mac::MacKey;
use crate::plan::{self, Plan};
use crate::policy::Profile;
use crate::recall::Outcome;
use crate::receipt::claims::Claims;
use crate::receipt::{Admitted, Consumed, Prepared, Receipt};
use crate::recheck::{canonical_cwd, same, spoken};
use crate::remember::{self, Active, RememberStore};
use crate::seams::Seams;
use crate::span::{Draft, Span};
use crate::state_dir::StateDir;
use crate::turn::{Bound, CallKind, Injection, PROMPT_BYTES_MAX, TurnRequest};

/// The gate over one state directory. Owned by one thread.
pub struct Gate {
    pub(crate) dir: StateDir,
    pub(crate) seams: Seams,
    pub(crate) vault: Vault,
    remember: RememberStore,
    fence_key: MacKey,
    pub(crate) claims: KeptClaims,
}

impl Gate {
    /// Opens key, journal, anchor and Must-Remember. Creates them at the very first start only.
    pub fn open(dir: StateDir, seams: Seams) -> Result<Self, Refusal> {
        let vault = Vault::open(&dir, &seams)?;
        let remember = RememberStore::open(&dir.remember(), vault.keyring())?;
        let fence_key = vault.keyring().current().key.derive("fence v1");
        Ok(Self { dir, seams, vault, remember, fence_key, claims: KeptClaims::default() })
    }

    /// Binds who, where and which: checks the prompt, makes the directory canonical, draws the receipt id.
    pub fn bind(&mut self, request: TurnRequest) -> Result<Bound, Refusal> {
        let id = self.draw_id()?;
        self.bind_as(id, request.clone()).map_err(|refusal| self.refuse(id, &request, refusal))
    }

    fn bind_as(&mut self, id: ReceiptId, mut request: TurnRequest) -> Result<Bound, Refusal> {
        if request.kind == CallKind::Turn && request.prompt.trim().is_empty() {
            let advice = "Write a message and send it.";
            return Err(Refusal::new(Detail::Prompt, "The message is blank.", advice));
        }
        if request.prompt.len() > PROMPT_BYTES_MAX {
            let bytes = request.prompt.len();
            let message = format!("The message has {bytes} bytes; at most {PROMPT_BYTES_MAX} fit.");
            return Err(Refusal::new(Detail::Prompt, message, "Shorten the message and send again."));
        }
        let cwd = canonical_cwd(&self.seams, &request.cwd)?;
        let cwd_digest = Digest::of(cwd.as_os_str().as_encoded_bytes());
        let prompt_digest = spoken(&request);
        request.retry_of = self.repeated(&request)?;
        Ok(Bound { request, id, cwd, cwd_digest, prompt_digest })
    }

    /// Reads everything mandatory fresh, picks the profile by identity, and says what the providers are asked. `fresh` was
    /// made after this call and all others that it is used for were asked.
    pub fn plan(&mut self, bound: Bound, fresh: &mut Fresh) -> Result<Plan, Refusal> {
        let (id, request) = (bound.id, bound.request.clone());
        self.read(bound, fresh).map_err(|refusal| self.refuse(id, &request, refusal))
    }

    fn read(&mut self, mut bound: Bound, fresh: &mut Fresh) -> Result<Plan, Refusal> {
        let instruction_host = bound.request.instruction_host.ok_or_else(host_unbound)?;
        let (policy_revision, profile) = self.profile(&bound.request, fresh)?;
        let snapshot = self.snapshot(&bound.request, &bound.cwd, profile.as_ref(), fresh)?;
        let remember_revision = fresh.remembered(|| self.remember.revision_since(&mut self.vault))?;
        let active = self.active(&bound.request, fresh)?;
        remember::fits_budget(&active)?;
        bound.request.retry_of = self.unchanged(bound.request.retry_of, &snapshot, &active)?;
        let planned = plan::providers(&bound, profile.as_ref())?;
        let plan = Plan {
            bound,
            instruction_host,
            snapshot,
            policy_revision,
            profile,
            remember_revision,
            active,
            planned,
        };
        Ok(plan)
    }

    /// The repeated call, where files and rules still are what it bound. Else this is a turn of its own, which asks the
    /// providers and injects what changed: a repetition adds nothing to the body.
    fn unchanged(
        &mut self,
        repeated: Option<ReceiptId>,
        snapshot: &Snapshot,
        active: &[Active],
    ) -> Result<Option<ReceiptId>, Refusal> {
        let Some(repeated) = repeated else { return Ok(None) };
        let same = self.claims_of(repeated)?.is_some_and(|claims| {
            let documents = claims.documents.iter().map(|doc| (&doc.id, doc.sha256));
            let rules = claims.must_remember.iter().map(|entry| (&entry.id, entry.version));
            documents.eq(snapshot.documents.iter().map(|doc| (&doc.id, doc.sha256)))
                && rules.eq(active.iter().map(|entry| (&entry.id, entry.version)))
        });
        Ok(same.then_some(repeated))
    }

    pub(crate) fn profile(
        &self,
        request: &TurnRequest,
        fresh: &mut Fresh,
    ) -> Result<(u64, Option<Profile>), Refusal> {
        let policy = fresh.policy(&self.dir.gate_dir())?;
        let profile = policy.select(&request.identity, request.host)?.cloned();
        Ok((policy.revision, profile))
    }

    pub(crate) fn snapshot(
        &self,
        request: &TurnRequest,
        cwd: &Path,
        profile: Option<&Profile>,
        fresh: &mut Fresh,
    ) -> Result<Arc<Snapshot>, Refusal> {
        let host = request.instruction_host.ok_or_else(host_unbound)?;
        let links = profile.map(|profile| profile.allowed_symlink_targets.clone()).unwrap_or_default();
        let place = Where { host, homes: request.homes.clone(), cwd: cwd.to_owned(), links };
        fresh.snapshot(self.seams.fs.as_ref(), place)
    }

    pub(crate) fn active(
        &mut self,
        request: &TurnRequest,
        fresh: &mut Fresh,
    ) -> Result<Arc<Vec<Active>>, Refusal> {
        let (identity, scope) = (&request.identity, &request.scope);
        let person = (identity.user_id.clone(), identity.tenant_id.clone());
        let (group, task) = (scope.group_id.clone(), scope.task_id.clone());
        let whose = (person.0, person.1, scope.project_id.clone(), group, task);
        fresh.rules(whose, |whose| match self.active_now(whose) {
            // A rule may be signed with a key that another process drew since.
            Err(_) if self.remember.follow(self.vault.newest_keyring()?) => self.active_now(whose),
            found => found,
        })
    }

    fn active_now(&self, (user, tenant, project, group, task): &Whose) -> Result<Vec<Active>, Refusal> {
        self.remember.active(user, tenant, project, group.as_ref(), task.as_ref())
    }

    /// Puts the exact body together. `spans` are the conversation's stored spans; those whose place the draft has are replayed.
    pub fn compose(
        &mut self,
        plan: Plan,
        outcomes: &[Outcome],
        draft: &Draft,
        spans: &[Span],
    ) -> Result<Composed, Refusal> {
        let (id, request) = (plan.bound.id, plan.bound.request.clone());
        self.compose_as(plan, outcomes, draft, spans).map_err(|refusal| self.refuse(id, &request, refusal))
    }

    fn compose_as(
        &mut self,
        plan: Plan,
        outcomes: &[Outcome],
        draft: &Draft,
        spans: &[Span],
    ) -> Result<Composed, Refusal> {
        let request = &plan.bound.request;
        let client_body = draft.body.digest() == request.client_body_digest;
        same(client_body, Field::Request, "The host's body changed")?;
        let replays =
            held::replays(draft, spans, plan.injects(), &request.identity, |id| self.claims_of(id))?;
        let parent = self.known_parent(&plan.bound)?;
        let inputs = Inputs {
            outcomes,
            draft,
            replays,
            fence_key: &self.fence_key,
            parent,
            journal_id: self.vault.journal_id(),
        };
        compose::compose(plan, &inputs)
    }

    /// Whether a call that adds nothing, as this one is put, would be refused because its conversation does not hold what
    /// is mandatory: after the host's own compaction, or where a repeated call's spans are gone. Records nothing; any other
    /// reason to refuse comes again on the path itself.
    pub fn is_unknown(&mut self, request: &TurnRequest, draft: &Draft, spans: &[Span]) -> bool {
        let tried = self.draw_id().and_then(|id| self.bind_as(id, request.clone()));
        let tried = tried.and_then(|bound| self.read(bound, &mut Fresh::default()));
        // One that asks providers injects, and lacks nothing.
        let Ok(plan) = tried else { return false };
        !plan.injects() && self.compose_as(plan, &[], draft, spans).err().is_some_and(|why| is_unknown(&why))
    }

    /// The named earlier call, where this one repeats its very body.
    fn repeated(&mut self, request: &TurnRequest) -> Result<Option<ReceiptId>, Refusal> {
        let Some(earlier) = request.retry_of else { return Ok(None) };
        let same = |claims: &Arc<Claims>| {
            claims.session_id == request.scope.session_id
                && claims.kind == request.kind
                && claims.paused == (request.injection == Injection::Paused)
                && claims.client_body_digest == request.client_body_digest
        };
        Ok(self.claims_of(earlier)?.filter(same).map(|claims| claims.id))
    }

    /// The named parent, where this journal knows it as a consumed turn (or subagent's call) of the same session. Its
    /// prompt is this call's.
    fn known_parent(&mut self, bound: &Bound) -> Result<Option<Arc<Claims>>, Refusal> {
        let Some(parent) = bound.request.parent else { return Ok(None) };
        let fits = |claims: &Arc<Claims>| {
            let speaks = matches!(claims.kind, CallKind::Turn | CallKind::Subagent);
            speaks && claims.session_id == bound.request.scope.session_id
        };
        let Some(claims) = self.claims_of(parent)?.filter(fits) else { return Ok(None) };
        let unknown = claims.prompt_digest.is_none() || bound.prompt_digest.is_none();
        let prompt = unknown || claims.prompt_digest == bound.prompt_digest;
        same(prompt, Field::Prompt, "The prompt of its turn changed")?;
        Ok(Some(claims))
    }

    /// Claims of a consumed receipt of this journal; consumed receipts never change, so they are read once.
    fn claims_of(&mut self, id: ReceiptId) -> Result<Option<Arc<Claims>>, Refusal> {
        if let Some(claims) = self.claims.get(id) {
            return Ok(Some(claims));
        }
        let Some(record) = self.vault.record(id)?.filter(|record| record.consumed.is_some()) else {
            return Ok(None);
        };
        let Some(claims) = claims_in(&record) else { return Ok(None) };
        let claims = Arc::new(claims);
        self.claims.keep(Arc::clone(&claims));
        Ok(Some(claims))
    }

    /// Gives a prepared receipt up, for a turn that the person aborted before consumption.
    pub fn void(&mut self, receipt: Receipt<Prepared>) -> Result<(), Refusal> {
        let body = json!({ "reason": "cancelled" });
        self.vault.append(RowKind::Void, Some(receipt.id()), &body).map(drop)
    }

    /// Gives a prepared receipt up for a reason outside the gate, such as a prompt that could not be kept, and records it.
    pub fn give_up(&mut self, receipt: Receipt<Prepared>, request: &TurnRequest, why: Refusal) -> Refusal {
        let id = receipt.id();
        drop(receipt);
        self.void_row(id, &why);
        self.refuse(id, request, why)
    }

    /// Records a refusal of a call that never came to be bound, such as one whose conversation cannot be opened.
    pub fn turn_away(&mut self, request: &TurnRequest, why: Refusal) -> Refusal {
        match self.draw_id() {
            Ok(id) => self.refuse(id, request, why),
            Err(_) => why,
        }
    }

    /// The journal, for listing and verifying receipts.
    pub fn vault(&mut self) -> &mut Vault {
        &mut self.vault
    }

    /// The Must-Remember store.
    pub fn remember(&mut self) -> &mut RememberStore {
        &mut self.remember
    }

    /// The state directory.
    pub fn state_dir(&self) -> &StateDir {
        &self.dir
    }

    fn draw_id(&self) -> Result<ReceiptId, Refusal> {
        let mut bytes = [0; 16];
        self.seams.rng.fill(&mut bytes).map_err(|error| {
            Refusal::new(
                Detail::JournalIo,
                format!("No randomness from the system: {error}"),
                "Run: agentspine doctor",
            )
        })?;
        Ok(ReceiptId(bytes))
    }

    pub(crate) fn void_row(&mut self, id: ReceiptId, refusal: &Refusal) {
        if !matches!(refusal.detail, Detail::Consumed | Detail::JournalBusy) {
            let body = json!({ "reason": refusal.key() });
            // The refusal itself is what the person sees; a journal that cannot take this row refuses every later call.
            let _ = self.vault.append(RowKind::Void, Some(id), &body);
        }
    }

    /// Stamps the id on a refusal and records it; a journal that cannot take the row refuses every later call anyway.
    pub(crate) fn refuse(&mut self, id: ReceiptId, request: &TurnRequest, mut refusal: Refusal) -> Refusal {
        refusal.receipt = Some(id);
        let body = json!({
            "code": refusal.code().as_str(),
            "detail": refusal.detail.to_string(),
            "kind": request.kind.as_str(),
            "host": request.host.as_str(),
            "instructionHost": request.instruction_host.map(crate::turn::InstructionHost::as_str),
            "sessionId": request.scope.session_id,
        });
        // Waiting for the same lock once more would only keep the person waiting; nobody holds the receipt any more.
        if refusal.detail != Detail::JournalBusy {
            let _ = self.vault.append(RowKind::Refused, Some(id), &body);
        }
        refusal
    }
}

/// Joins a consumed receipt and the body it binds. The only maker of [`Admitted`].
pub fn admit(receipt: Receipt<Consumed>, composed: Composed) -> Result<Admitted, Refusal> {
    let claims = receipt.claims();
    let bound = claims.id == composed.claims.id && claims.request_digest == composed.body.digest();
    same(bound, Field::Request, "The body is not the one this receipt binds")?;
    Ok(Admitted::new(claims, composed.body))
}

fn claims_in(record: &ReceiptRecord) -> Option<Claims> {
    let claims = record.issued.as_ref()?.body.get("claims")?;
    serde_json::from_value(claims.clone()).ok()
}

fn is_unknown(refusal: &Refusal) -> bool {
    refusal.detail == Detail::ConversationUnknown
}

fn host_unbound() -> Refusal {
    Refusal::new(
        Detail::HostUnbound,
        "It is not bound whose instruction files are mandatory here.",
        "Name the host: agentspine chat --instruction-host claude (or codex), or instruction_host in config.toml",
    )
}
