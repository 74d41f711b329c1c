//! Builds gate, recall, memory, model and screen from one [`crate::config::Config`].

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentspine_gate::seams::Seams;
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::{Gate, Refusal};
use agentspine_memory::{Actor, Capability, Grants, Ledger};
use agentspine_model::{HttpConfig, ModelClient, Url};
use agentspine_recall::{Commands, Providers, Recall, Supervisor, Wishes};

use crate::chat::intake::{Intake, Permission};
use crate::config::{Config, Secret};
use crate::conversations::Conversations;
use crate::desk::{self, Desk, Drawer};
use crate::report::Failure;
use crate::system;
use crate::turn::{Memories, Rooms};

/// Pause between two words of the demo model on a screen.
const DEMO_PAUSE: Duration = Duration::from_millis(12);
/// Longest key an `api_key_command` may print, bytes.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// What is needed to open the rooms; nothing is opened yet.
pub(crate) struct Opening {
    state: PathBuf,
    project: Option<PathBuf>,
    commands: Commands,
    memory: Grants,
    person: Grants,
    seams: Seams,
}

/// Prepares the rooms of one chat.
pub(crate) fn opening(config: &Config, cwd: &Path) -> Opening {
    let environment = config.environment.clone();
    let commands = Commands {
        supervisor: Supervisor { exe: own_program(), args_prefix: vec!["__supervise".into()] },
        path: config.environment.get("PATH").map(ToOwned::to_owned).unwrap_or_default(),
        scratch: config.state_dir.join("run"),
        credentials: Arc::new(move |name| environment.get(name).map(ToOwned::to_owned)),
    };
    let seams = system::seams();
    let memory = config.memory.authorization.grants(Actor::Model);
    let person = config.memory.authorization.grants(Actor::Person);
    let (state, project) = (config.state_dir.clone(), config.project_root(cwd));
    Opening { state, project, commands, memory, person, seams }
}

impl Opening {
    /// Opens them: the desk's thread opens gate and conversation store.
    pub(crate) fn rooms(self) -> Result<Arc<Rooms>, Failure> {
        let Self { state, project, commands, memory, person, seams } = self;
        let dir = StateDir::open(state, project.as_deref())?;
        // A ledger that cannot be opened fails its provider, which is optional unless the policy says otherwise.
        let ledger = Ledger::open(&dir.memory_db()).ok().map(|ledger| Arc::new(Mutex::new(ledger)));
        // A summary is the model's words: who may not let it write, does not let it write this way either.
        let permission =
            if memory.allows(Capability::SemanticWrite) { Permission::Granted } else { Permission::Denied };
        let intake = Intake { store: dir.conversations_db(), ledger: ledger.clone(), permission };
        let desk = Desk::start(move || drawer(dir, seams)).map_err(|error| {
            Failure::other(format!("No thread for the gate: {error}"), "Check the process limits: ulimit -u")
        })?;
        let recall = if memory.allows(Capability::Recall) { Recall::On } else { Recall::Off };
        let providers = Providers { ledger, recall, commands, wishes: Wishes::default() };
        Ok(Arc::new(Rooms { desk, providers, intake, memory, person }))
    }
}

/// Our own binary, by a name that survives its replacement by an update where the system has one.
pub(crate) fn own_program() -> PathBuf {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { own } else { std::env::current_exe().unwrap_or(own) }
}

fn drawer(dir: StateDir, seams: Seams) -> Result<Drawer, Refusal> {
    let conversations = Conversations::open(&dir.conversations_db()).map_err(desk::store)?;
    let memories = Memories::at(dir.memory_db());
    let gate = Gate::open(dir, seams.clone())?;
    Ok(Drawer { gate, conversations, seams, claim: None, memories })
}

/// How fast the demo model speaks.
#[derive(Clone, Copy)]
pub(crate) enum DemoPace {
    /// As a person reads.
    Typing,
    /// At once, for scripts.
    Instant,
}

/// The model client; reads no environment.
pub(crate) fn client(config: &Config, pace: DemoPace) -> Result<Arc<ModelClient>, Failure> {
    let proxy = config.http.proxy.as_deref().map(Url::parse).transpose().map_err(|error| {
        Failure::usage(
            format!("[http] proxy is no URL: {error}"),
            format!("Mend it in {}", config.short_path(&config.file)),
        )
    })?;
    let demo_pause = match pace {
        DemoPace::Typing => DEMO_PAUSE,
        DemoPace::Instant => Duration::ZERO,
    };
    let http =
        HttpConfig { proxy, ca_file: config.http.ca_file.clone(), demo_pause, ..HttpConfig::default() };
    ModelClient::new(http).map(Arc::new).map_err(|error| {
        Failure::usage(
            format!("The model client: {error}"),
            format!("Check [http] in {}", config.short_path(&config.file)),
        )
    })
}

/// Runs `api_key_command`, the person's own program, and takes the first line it prints.
pub(crate) fn key_from_command(config: &Config) -> Result<Option<Secret>, Failure> {
    let Some([program, args @ ..]) = config.api_key_command.as_deref() else { return Ok(None) };
    let failed = |what: &str| {
        Failure::other(
            format!("api_key_command {what}"),
            format!("Check it in {}", config.short_path(&config.file)),
        )
    };
    let done = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let done = done.map_err(|_| failed("did not start"))?;
    if !done.status.success() || done.stdout.len() > KEY_BYTES_MAX {
        return Err(failed("ended with an error or printed too much"));
    }
    let text = String::from_utf8(done.stdout).map_err(|_| failed("printed no UTF-8 text"))?;
    let key = text.lines().next().unwrap_or_default().trim();
    if key.is_empty() {
        return Err(failed("printed nothing"));
    }
    Ok(Some(Secret::new(key.to_owned())))
}
