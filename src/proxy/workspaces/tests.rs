//! The registry over a fixed clock and counted secrets.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::AtomicU8;

use agentspine_gate::Id;
use agentspine_gate::seams::{Clock, Rng};

use super::*;

/// A day that never passes unless a test says so.
struct Days(AtomicU64);

impl Clock for Days {
    fn wall_ms(&self) -> i64 {
        i64::try_from(self.0.load(Ordering::Relaxed)).unwrap() * DAY_MS
    }

    fn boottime_ms(&self) -> u64 {
        u64::try_from(self.wall_ms()).unwrap()
    }

    fn boot_id(&self) -> String {
        "0".repeat(32)
    }
}

/// Every draw is another byte, repeated.
struct Counted(AtomicU8);

impl Rng for Counted {
    fn fill(&self, out: &mut [u8]) -> std::io::Result<()> {
        out.fill(self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

struct Desk {
    dir: tempfile::TempDir,
    days: Arc<Days>,
    rng: Arc<Counted>,
}

impl Desk {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            days: Arc::new(Days(AtomicU64::new(20_000))),
            rng: Arc::new(Counted(AtomicU8::new(0xa0))),
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("proxy.json")
    }

    /// As another process opens it.
    fn open(&self) -> Result<Registry, RegistryError> {
        let seams = Seams { clock: self.days.clone(), rng: self.rng.clone(), ..system::seams() };
        Registry::with(self.file(), seams)
    }

    fn registry(&self) -> Registry {
        self.open().unwrap()
    }

    fn pass_days(&self, days: u64) {
        self.days.0.fetch_add(days, Ordering::Relaxed);
    }
}

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

fn binding(dir: &str) -> Binding {
    Binding {
        dir: dir.into(),
        host: Host::Claude,
        instruction_host: InstructionHost::Claude,
        identity: Identity {
            agent_id: id("agent"),
            persona_id: None,
            user_id: id("user"),
            tenant_id: id("tenant"),
            profile_id: id("profile"),
        },
        homes: HostHomes { home: "/home/me".into(), ..HostHomes::default() },
        upstreams: Upstreams::Anthropic,
    }
}

#[test]
fn the_same_binding_has_one_secret_and_any_other_binding_another() {
    let desk = Desk::new();
    let first = desk.registry().ensure(binding("/p")).unwrap();
    assert_eq!(first.secret.expose(), "a0".repeat(16));
    assert_eq!(first.binding, binding("/p"));
    let again = desk.registry().ensure(binding("/p")).unwrap();
    assert_eq!(again.secret.expose(), first.secret.expose());

    let mut others = vec![binding("/q")];
    others.push(Binding { host: Host::Generic, ..binding("/p") });
    others.push(Binding { instruction_host: InstructionHost::Codex, ..binding("/p") });
    others.push(Binding { upstreams: Upstreams::ByDialect, ..binding("/p") });
    others.push(Binding { homes: HostHomes::default(), ..binding("/p") });
    let mut other_agent = binding("/p");
    other_agent.identity.persona_id = Some(id("persona"));
    others.push(other_agent);
    let mut secrets: Vec<String> = vec![first.secret.expose().to_owned()];
    for other in others {
        secrets.push(desk.registry().ensure(other).unwrap().secret.expose().to_owned());
    }
    let count = secrets.len();
    secrets.sort();
    secrets.dedup();
    assert_eq!(secrets.len(), count);
}

#[test]
fn a_secret_finds_its_binding_and_nothing_else_does() {
    let desk = Desk::new();
    let registry = desk.registry();
    assert!(registry.find("").is_none());
    let one = registry.ensure(binding("/p")).unwrap();
    let two = registry.ensure(binding("/q")).unwrap();
    assert_eq!(registry.find(one.secret.expose()).unwrap().binding, binding("/p"));
    assert_eq!(registry.find(two.secret.expose()).unwrap().binding, binding("/q"));
    let upper = one.secret.expose().to_uppercase();
    for wrong in ["", "a0", upper.as_str(), "b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7"] {
        assert!(registry.find(wrong).is_none(), "{wrong}");
    }
}

#[test]
fn a_running_daemon_sees_what_others_add_forget_and_spoil() {
    let desk = Desk::new();
    let daemon = desk.registry();
    let added = desk.registry().ensure(binding("/p")).unwrap();
    let secret = added.secret.expose();
    assert_eq!(daemon.find(secret).unwrap().binding, binding("/p"));

    std::fs::set_permissions(desk.file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(daemon.find(secret).is_none());
    std::fs::set_permissions(desk.file(), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(daemon.find(secret).is_some());

    desk.registry().forget(secret).unwrap();
    assert!(daemon.find(secret).is_none());
    // A new one, never the old secret again.
    assert_ne!(desk.registry().ensure(binding("/p")).unwrap().secret.expose(), secret);
}

#[test]
fn what_nobody_used_for_90_days_is_dropped_and_a_request_is_a_use() {
    let desk = Desk::new();
    let registry = desk.registry();
    let used = registry.ensure(binding("/used")).unwrap();
    let unused = registry.ensure(binding("/unused")).unwrap();
    desk.pass_days(60);
    assert!(registry.find(used.secret.expose()).is_some());
    desk.pass_days(30);
    registry.ensure(binding("/new")).unwrap();
    assert!(registry.find(used.secret.expose()).is_some());
    assert!(registry.find(unused.secret.expose()).is_none());
}

#[test]
fn of_too_many_workspaces_those_unused_longest_go() {
    let desk = Desk::new();
    let registry = desk.registry();
    let old = registry.ensure(binding("/old")).unwrap();
    desk.pass_days(1);
    let mut contents = file::read(&desk.file()).unwrap();
    for number in 1..WORKSPACES_MAX {
        let secret = Secret::new(format!("{number:032x}"));
        contents.ensure(binding(&format!("/p{number}")), secret, registry.today());
    }
    private::replace(&desk.file(), &Stored::of(&contents).bytes().unwrap()).unwrap();
    assert!(registry.find(old.secret.expose()).is_some());
    // That request was a use; another day, and the one unused longest is another.
    desk.pass_days(1);
    assert!(registry.find(old.secret.expose()).is_some());
    registry.ensure(binding("/one more")).unwrap();
    assert!(registry.find(old.secret.expose()).is_some());
    assert_eq!(file::read(&desk.file()).unwrap().workspaces.len(), WORKSPACES_MAX);
}

#[test]
fn the_port_is_remembered_beside_the_workspaces() {
    let desk = Desk::new();
    let registry = desk.registry();
    assert_eq!(registry.port().unwrap(), None);
    let workspace = registry.ensure(binding("/p")).unwrap();
    desk.registry().remember_port(4321).unwrap();
    assert_eq!(registry.port().unwrap(), Some(4321));
    assert!(registry.find(workspace.secret.expose()).is_some());
}

#[test]
fn the_file_is_private_named_by_schema_and_read_strictly() {
    let desk = Desk::new();
    let registry = desk.registry();
    registry.ensure(binding("/p")).unwrap();
    let mode = desk.file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let text = std::fs::read_to_string(desk.file()).unwrap();
    assert!(text.contains("\"schema\": \"agentspine.proxy/v1\""), "{text}");

    let spoilt = [
        (text.replace("proxy/v1", "proxy/v2"), RegistryError::Invalid(2)),
        (text.replace("\"port\"", "\"prot\""), RegistryError::Invalid(3)),
        (text.replace(&"a0".repeat(16), "a0"), RegistryError::Invalid(6)),
        (String::new(), RegistryError::Invalid(1)),
    ];
    for (text, why) in spoilt {
        std::fs::write(desk.file(), text).unwrap();
        assert_eq!(desk.open().err(), Some(why));
        assert!(registry.ensure(binding("/p")).is_err());
    }
    std::fs::remove_file(desk.file()).unwrap();
    std::os::unix::fs::symlink("/dev/null", desk.file()).unwrap();
    assert_eq!(desk.open().err(), Some(RegistryError::Unfit("is not a regular file")));
}

#[test]
fn no_secret_in_debug_text() {
    let desk = Desk::new();
    let workspace = desk.registry().ensure(binding("/p")).unwrap();
    let text = format!("{workspace:?}");
    assert!(!text.contains(workspace.secret.expose()), "{text}");
}

#[test]
fn threads_that_ensure_at_once_agree_on_one_secret() {
    let desk = Desk::new();
    let secrets: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|number| {
                let registry = desk.registry();
                scope.spawn(move || {
                    let own = registry.ensure(binding(&format!("/own{number}"))).unwrap();
                    let shared = registry.ensure(binding("/shared")).unwrap();
                    assert_ne!(own.secret.expose(), shared.secret.expose());
                    shared.secret.expose().to_owned()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(secrets.iter().all(|secret| *secret == secrets[0]), "{secrets:?}");
    assert_eq!(file::read(&desk.file()).unwrap().workspaces.len(), 17);
}
