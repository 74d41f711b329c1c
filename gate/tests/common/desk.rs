//! A person at work: a project with one CLAUDE.md, one session, whole turns step by step.

use std::path::PathBuf;
use std::sync::Arc;

use agentspine_gate::instructions::{HostHomes, project_id};
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::policy::PolicyStore;
use agentspine_gate::recall::{Answer, Item, Outcome, Planned, Validity};
use agentspine_gate::receipt::claims::Claims;
use agentspine_gate::receipt::{Admitted, Prepared, Receipt};
use agentspine_gate::remember::{Proposal, RememberScope};
use agentspine_gate::span::{Draft, Part, Place, Slot, Span};
use agentspine_gate::turn::{CallKind, Host, Identity, Injection, InstructionHost, Scope, TurnRequest};
use agentspine_gate::{CallOutcome, Composed, Detail, Digest, Fresh, Gate, Plan, Refusal, admit};

use super::{Home, id};

/// A person with a project that has one CLAUDE.md, at work in one session.
pub struct Desk {
    pub home: Home,
    pub gate: Gate,
    pub project: PathBuf,
    pub said: Vec<String>,
    pub spans: Vec<Span>,
    pub next: u32,
}

impl Desk {
    pub fn new() -> Self {
        let mut home = Home::new();
        home.seams.fs = Arc::new(OsFs);
        let project = home.spare("home/project");
        std::fs::create_dir_all(project.join(".git")).unwrap();
        let gate = Gate::open(home.dir.clone(), home.seams.clone()).unwrap();
        let desk = Self { home, gate, project, said: Vec::new(), spans: Vec::new(), next: 0 };
        desk.write("CLAUDE.md", "Use tabs. CANARY-INSTRUCTION\n");
        desk
    }

    /// Another process at the same state directory.
    pub fn open(&self) -> Result<Gate, Refusal> {
        Gate::open(self.home.dir.clone(), self.home.seams.clone())
    }

    /// The conversation begins anew.
    pub fn start_over(&mut self) {
        self.said.clear();
        self.spans.clear();
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.project.join(name), text).unwrap();
    }

    pub fn request(&mut self, prompt: &str) -> TurnRequest {
        self.next += 1;
        TurnRequest {
            identity: Identity {
                agent_id: id("host-agent:default"),
                persona_id: None,
                user_id: id("local-user"),
                tenant_id: id("local-tenant"),
                profile_id: id("default"),
            },
            host: Host::Agentspine,
            instruction_host: Some(InstructionHost::Claude),
            homes: HostHomes {
                home: self.home.spare("home"),
                claude_managed_dir: Some(self.home.spare("etc")),
                ..HostHomes::default()
            },
            scope: Scope {
                session_id: id("s-1"),
                project_id: project_id(&OsFs, &self.project),
                task_id: None,
                group_id: None,
            },
            cwd: self.project.clone(),
            delivery_id: id(&format!("s-1/{}", self.next)),
            kind: CallKind::Turn,
            prompt: prompt.to_owned(),
            parent: None,
            retry_of: None,
            injection: Injection::On,
            client_body_digest: Digest::of(&self.draft(prompt).body),
            endpoint: "http://127.0.0.1:1/v1/messages".into(),
            model: "m".into(),
        }
    }

    /// A body with one string per human message so far and the new one; each has its slot.
    pub fn draft(&self, prompt: &str) -> Draft {
        let (mut body, mut slots, mut place) = (b"[".to_vec(), Vec::new(), Place::start("s-1"));
        for (n, text) in self.said.iter().map(String::as_str).chain([prompt]).enumerate() {
            place = place.then("user", &[Part::Text(text)]);
            body.extend_from_slice(if n > 0 { b"," } else { b"" });
            body.extend_from_slice(serde_json::to_string(text).unwrap().as_bytes());
            slots.push(Slot { place, at: body.len(), before: ",\"", after: "\"", wrap: None });
        }
        body.push(b']');
        Draft { body: body.into(), slots, host_slots: Vec::new() }
    }

    pub fn plan(&mut self, request: &TurnRequest) -> Result<Plan, Refusal> {
        let bound = self.gate.bind(request.clone())?;
        self.gate.plan(bound, &mut Fresh::default())
    }

    pub fn compose(&mut self, request: &TurnRequest) -> Result<Composed, Refusal> {
        let plan = self.plan(request)?;
        let outcomes: Vec<Outcome> = plan.queries().iter().map(|planned| empty(planned, &[])).collect();
        let draft = self.draft(&request.prompt);
        self.gate.compose(plan, &outcomes, &draft, &self.spans)
    }

    pub fn prepare(&mut self, request: &TurnRequest) -> (Composed, Receipt<Prepared>) {
        let composed = self.compose(request).unwrap();
        let prepared = self.gate.issue(&composed).unwrap();
        (composed, prepared)
    }

    pub fn finish(
        &mut self,
        composed: Composed,
        prepared: Receipt<Prepared>,
        request: &TurnRequest,
    ) -> Result<(Claims, Admitted), Refusal> {
        self.spans.extend(composed.span().cloned());
        let consumed = self.gate.consume(prepared, &composed, request)?;
        let claims = consumed.claims().clone();
        Ok((claims, admit(consumed, composed)?))
    }

    /// One whole turn.
    pub fn turn(&mut self, prompt: &str) -> (Claims, String) {
        let request = self.request(prompt);
        let (composed, prepared) = self.prepare(&request);
        let (claims, admitted) = self.finish(composed, prepared, &request).unwrap();
        self.said.push(prompt.to_owned());
        assert_eq!(admitted.receipt(), claims.id);
        let body = admitted.into_body();
        assert_eq!(Digest::of(&body), claims.request_digest);
        self.gate.record_outcome(claims.id, CallOutcome::Answered).unwrap();
        (claims, String::from_utf8(body.into()).unwrap())
    }

    /// Issues, lets something happen, and consumes; the refusal's detail.
    pub fn refused_after(&mut self, happen: impl FnOnce(&mut Self, &mut TurnRequest)) -> Detail {
        let mut request = self.request("hello");
        let (composed, prepared) = self.prepare(&request);
        happen(self, &mut request);
        let Err(refusal) = self.gate.consume(prepared, &composed, &request) else {
            panic!("the receipt was consumed")
        };
        assert_eq!(refusal.receipt, Some(composed.claims().id));
        assert!(!refusal.advice.is_empty() && !refusal.message.contains("CANARY"), "{refusal:?}");
        refusal.detail
    }
}

pub fn empty(planned: &Planned, items: &[Item]) -> Outcome {
    Outcome {
        provider_id: planned.provider.id.clone(),
        query_digest: planned.query.query_digest,
        latency_ms: 1,
        result: Ok(Answer {
            items: items.to_vec(),
            screened_out: Vec::new(),
            rejected: 0,
            left_out: Vec::new(),
        }),
    }
}

pub fn item(name: &str, claim: &str) -> Item {
    Item {
        id: id(name),
        revision: id("1"),
        claim: claim.into(),
        source: id("ledger"),
        validity: Validity::Current,
        confidence: 0.5,
        about: String::new(),
        why_loaded: "matches: tabs".into(),
    }
}

pub fn set_policy(desk: &mut Desk, key: &str, value: &str) {
    let store = PolicyStore::new(&desk.home.dir.gate_dir());
    let change = store.set(key, value, None).unwrap();
    store.apply(change, super::WALL_MS).unwrap();
}

pub fn remember(desk: &mut Desk, claim: &str) -> agentspine_gate::Id {
    let scope = RememberScope {
        user_id: id("local-user"),
        tenant_id: id("local-tenant"),
        project_id: None,
        group_id: None,
        task_id: None,
    };
    let proposal =
        Proposal { claim, scope, any_group: false, kind: None, source_digest: None, now_ms: super::WALL_MS };
    let proposed = desk.gate.remember().propose(proposal).unwrap();
    desk.gate.remember().confirm(&proposed.candidate.id, None, super::WALL_MS).unwrap().entry.id
}

pub fn require_ledger(desk: &mut Desk) {
    let profile = serde_json::json!({
        "id": "local", "agentId": "host-agent:default", "host": "agentspine", "profileId": "default",
        "tenantId": "local-tenant", "enabled": true,
        "providers": [{
            "schema": "agentspine.retrieval-provider/v1", "id": "notes", "adapter": "ledger/v1",
            "required": true, "failClosed": true
        }]
    });
    let store = PolicyStore::new(&desk.home.dir.gate_dir());
    let change = store.propose(profile.to_string().as_bytes()).unwrap();
    store.apply(change, super::WALL_MS).unwrap();
}
