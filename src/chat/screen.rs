//! The chat full screen: one loop between keys, the engine's news and signals. Draws only when something changed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentspine_gate::ReceiptId;
use agentspine_gate::remember::RememberScope;
use agentspine_gate::turn::InstructionHost;
use agentspine_model::Target;
use agentspine_tui::{AppEvent, Effect, Event, Level, Setup, State, Theme, tick_ms, update, view};
use crossterm::event::EventStream;
use futures_util::StreamExt as _;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::cancel::Cancel;
use super::compact::Why;
use super::engine::{Binding, Engine};
use super::fork::Forked;
use super::history::Held;
use super::log::{self, LogEvent};
use super::pick::{self, Choice};
use super::show::{self, Show};
use super::switch::Waiting;
use super::told::{ChatEvent, End};
use super::{history, receipts, rules};
use crate::cli::chat::ChatArgs;
use crate::compose::{self, Opening};
use crate::config::Config;
use crate::report::{Exit, Failure};
use crate::terminal::{Signals, Terminal, no_terminal};
use crate::turn::Rooms;

/// A draft is saved when nothing was typed for this long.
pub(super) const DRAFT_PAUSE: Duration = Duration::from_millis(400);

/// A turn that was running when the person left is given this long to close its books.
const CLOSING: Duration = Duration::from_secs(2);
/// Frames of a stream are at least this far apart: 60 a second.
const FRAME_PAUSE: Duration = Duration::from_millis(16);

/// What the engine's task is asked to do.
pub(super) enum Command {
    Prompt(String, Cancel),
    Retry(Cancel),
    Model(Target),
    Host(InstructionHost),
    Compact(Cancel),
    Fork,
}

/// Runs the full-screen chat until the person leaves.
pub(super) async fn run(
    args: &ChatArgs,
    config: &Config,
    opening: Opening,
    binding: Binding,
) -> Result<(), Failure> {
    let choice = pick::choose(config)?;
    let mut terminal = Terminal::take().map_err(|error| no_terminal(&error))?;
    let (news, inbox) = mpsc::unbounded_channel();
    let short_path = |path: &Path| config.short_path(path);
    let mut screen = Screen::new(config, news, choice, &binding, &short_path)?;
    // First paint before any database or network is touched.
    screen.draw(&mut terminal)?;
    let rooms = opening.rooms()?;
    screen.begin(args, rooms, binding).await?;
    let ended = screen.follow(&mut terminal, inbox).await;
    drop(terminal);
    screen.close().await;
    ended
}

/// News for the loop.
pub(super) enum News {
    Chat(ChatEvent),
    App(AppEvent),
    Forked(Forked),
    Found(agentspine_model::Found),
}

pub(super) struct Screen<'a> {
    pub(super) config: &'a Config,
    pub(super) state: State,
    pub(super) news: UnboundedSender<News>,
    pub(super) choice: Choice,
    pub(super) work: Option<Work>,
    /// Set until the person chose a session.
    pub(super) waiting: Option<Waiting>,
    show: Show<'a>,
    pub(super) cancel: Option<Cancel>,
    pub(super) found: Option<Target>,
    pub(super) draft: Option<(String, Instant)>,
    /// Which turn each receipt of this session belongs to.
    pub(super) turns: receipts::Turns,
    pub(super) latest: Option<ReceiptId>,
    /// When the last frame was drawn.
    drawn: Option<Instant>,
    pub(super) dirty: bool,
}

/// What exists once the rooms are open.
pub(super) struct Work {
    pub(super) rooms: Arc<Rooms>,
    pub(super) session: agentspine_gate::Id,
    /// Whose Must-Remember candidates the person may confirm here.
    pub(super) rules: RememberScope,
    pub(super) commands: UnboundedSender<Command>,
    /// Questions of the receipts pane.
    pub(super) questions: UnboundedSender<receipts::Wanted>,
    /// The engine's task and the one that answers questions; each ends with its sender.
    tasks: [JoinHandle<()>; 2],
}

/// Whether the loop goes on.
pub(super) enum Next {
    Go,
    Quit,
}

impl<'a> Screen<'a> {
    fn new(
        config: &'a Config,
        news: UnboundedSender<News>,
        choice: Choice,
        binding: &Binding,
        short_path: &'a dyn Fn(&Path) -> String,
    ) -> Result<Self, Failure> {
        let size = crossterm::terminal::size().map_err(|error| no_terminal(&error))?;
        let theme = Theme { ascii: config.ui.ascii, no_color: config.ui.no_color, still: false };
        let (place, session) = (config.short_path(&binding.cwd), binding.scope.session_id.to_string());
        let state = State::new(Setup { theme, place, session, size });
        Ok(Self {
            config,
            state,
            news,
            choice,
            work: None,
            waiting: None,
            show: Show::new(short_path),
            cancel: None,
            found: None,
            draft: None,
            turns: receipts::Turns::new(),
            latest: None,
            drawn: None,
            dirty: true,
        })
    }

    /// Draws what changed, at most once in [`FRAME_PAUSE`]; otherwise when the next frame is due.
    fn frame(&mut self, terminal: &mut Terminal) -> Result<Option<Instant>, Failure> {
        let due = self.drawn.map(|at| at + FRAME_PAUSE).filter(|due| self.dirty && *due > Instant::now());
        if self.dirty && due.is_none() {
            self.draw(terminal)?;
        }
        Ok(due)
    }

    fn draw(&mut self, terminal: &mut Terminal) -> Result<(), Failure> {
        (self.dirty, self.drawn) = (false, Some(Instant::now()));
        terminal.draw(|frame| view(&self.state, frame)).map_err(|error| no_terminal(&error))
    }

    /// Opens the session, or asks which.
    async fn begin(
        &mut self,
        args: &ChatArgs,
        rooms: Arc<Rooms>,
        mut binding: Binding,
    ) -> Result<(), Failure> {
        if let Some(None) = args.resume {
            let offered = history::offered(&rooms.desk, &binding).await?;
            if !offered.is_empty() {
                self.offer(Waiting { rooms, binding, offered });
                return Ok(());
            }
        }
        let held = history::open(args, &rooms.desk, &mut binding).await?;
        self.open(rooms, binding, held).await
    }

    /// Starts the engine's task over what the session holds, and says which model answers.
    pub(super) async fn open(
        &mut self,
        rooms: Arc<Rooms>,
        binding: Binding,
        held: Held,
    ) -> Result<(), Failure> {
        // A resumed session is another one than the first paint could name.
        self.app(AppEvent::SessionNamed { label: binding.scope.session_id.to_string() });
        self.tell_past(&held.events);
        let target = match &self.choice {
            Choice::Model(target) | Choice::Demo(target) => target.clone(),
            Choice::Ask(_) => agentspine_model::ModelSpec::demo().target(None),
        };
        self.name_model(&target);
        let client = compose::client(self.config, compose::DemoPace::Typing)?;
        match &self.choice {
            Choice::Model(_) => {}
            Choice::Ask(choices) => self.app(AppEvent::AskModel { choices: choices.clone() }),
            Choice::Demo(_) => self.probe(client.clone()),
        }
        if binding.instruction_host.is_none() {
            self.app(AppEvent::AskInstructionHost);
        }
        let (session, rules) = (binding.scope.session_id.clone(), rules::scope(&binding));
        let (commands, inbox) = mpsc::unbounded_channel();
        let compaction = self.config.compaction;
        let mut engine = Engine::new(Arc::clone(&rooms), client, target, binding, held, compaction);
        engine.take_up();
        let (questions, asked) = mpsc::unbounded_channel();
        let tasks = [
            tokio::spawn(serve(engine, inbox, self.news.clone())),
            tokio::spawn(inquire(Arc::clone(&rooms), session.clone(), asked, self.news.clone())),
        ];
        let work = Work { rooms, session, rules, commands, questions, tasks };
        self.load_draft(&work).await;
        self.work = Some(work);
        self.ask_rules();
        Ok(())
    }

    /// A resumed session shows what was said.
    fn tell_past(&mut self, events: &[LogEvent]) {
        let mut turn = 0;
        for event in events {
            match event {
                LogEvent::Prompt { text, receipt } => {
                    turn += 1;
                    self.turns.insert(*receipt, turn);
                    self.app(AppEvent::TurnStarted { turn, prompt: text.clone() });
                }
                LogEvent::Assistant { blocks, .. } => {
                    for block in blocks {
                        if let agentspine_model::AssistantBlock::Text(text) = block {
                            self.app(AppEvent::Delta(text.clone()));
                        }
                    }
                }
                LogEvent::TurnEnd => self.app(AppEvent::TurnDone),
                LogEvent::Summary(summary) => self.app(show::summary_of_past(summary)),
                LogEvent::ToolResults { .. }
                | LogEvent::Compacting { .. }
                | LogEvent::Refused { .. }
                | LogEvent::Failed { .. }
                | LogEvent::Call { .. } => {}
            }
        }
        if let Some((receipt, prompt)) = log::outcome_unknown(events) {
            self.app(AppEvent::SpentUnknown { receipt: receipt.short(), prompt: prompt.to_owned() });
        }
    }

    pub(super) fn name_model(&mut self, target: &Target) {
        let demo = matches!(target.dialect, agentspine_model::Dialect::Demo);
        let note = if demo { pick::DEMO_NOTE.to_owned() } else { String::new() };
        self.app(AppEvent::ModelNamed { label: pick::label(target), note });
    }

    /// Looks for a local server, after first paint, with GET only.
    fn probe(&mut self, client: Arc<agentspine_model::ModelClient>) {
        let news = self.news.clone();
        tokio::spawn(async move {
            if let Some(server) = client.probe().await.into_iter().next() {
                let _ = news.send(News::Found(server));
            }
        });
    }

    async fn load_draft(&mut self, work: &Work) {
        let session = work.session.clone();
        let draft =
            work.rooms.desk.ask(move |at| at.conversations.load_draft(&session).map_err(crate::desk::store));
        if let Ok(Some(text)) = draft.await {
            self.app(AppEvent::Draft(text));
        }
    }

    pub(super) fn app(&mut self, event: AppEvent) {
        self.dirty = true;
        for effect in update(&mut self.state, Event::from(event)) {
            match effect {
                Effect::LoadReceipts => self.ask(receipts::Wanted::List(self.turns.clone())),
                Effect::ShowReceipt(id) => self.ask(receipts::Wanted::One(id)),
                Effect::SaveDraft(text) => self.draft = Some((text, Instant::now() + DRAFT_PAUSE)),
                // Everything else is asked for by keys only.
                _ => {}
            }
        }
    }

    async fn follow(
        &mut self,
        terminal: &mut Terminal,
        mut inbox: UnboundedReceiver<News>,
    ) -> Result<(), Failure> {
        let mut keys = EventStream::new();
        let mut signals = Signals::new()?;
        loop {
            let frame = self.frame(terminal)?;
            let tick = tick_ms(&self.state).map(|ms| Instant::now() + Duration::from_millis(ms));
            let due = self.draft.as_ref().map(|(_, at)| *at);
            tokio::select! {
                key = keys.next() => match key {
                    Some(Ok(event)) => {
                        // A key is answered at once, whatever streams.
                        (self.dirty, self.drawn) = (true, None);
                        if matches!(event, crossterm::event::Event::Resize(..)) {
                            // A window that went small and came back has the size it had, and lost what it showed.
                            terminal.forget().map_err(|error| no_terminal(&error))?;
                        }
                        for effect in update(&mut self.state, Event::Input(event)) {
                            let suspends = matches!(effect, Effect::OpenEditor(_) | Effect::Suspend);
                            if suspends {
                                // A parked reader would steal the editor's keys.
                                drop(std::mem::replace(&mut keys, EventStream::new()));
                            }
                            if let Next::Quit = self.perform(effect, terminal, signals.ended()).await? {
                                return self.leave().await;
                            }
                        }
                    }
                    Some(Err(error)) => return Err(no_terminal(&error)),
                    None => return self.leave().await,
                },
                Some(news) = inbox.recv() => {
                    self.take(news);
                    while let Ok(more) = inbox.try_recv() {
                        self.take(more);
                    }
                }
                () = sleep(tick), if tick.is_some() => {
                    self.dirty = true;
                    let ms = tick_ms(&self.state).unwrap_or_default();
                    let _ = update(&mut self.state, Event::Tick { ms });
                }
                () = sleep(due), if due.is_some() => self.save_draft().await,
                () = sleep(frame), if frame.is_some() => {}
                () = signals.recv() => {
                    self.save_draft().await;
                    return Err(Failure::Told(Exit::Interrupted));
                }
            }
        }
    }

    fn take(&mut self, news: News) {
        let events = match news {
            News::App(event) => vec![event],
            News::Found(server) => self.found(&server),
            News::Forked(forked) => self.forked(&forked),
            News::Chat(event) => {
                if matches!(&event, ChatEvent::Compacted(done) if done.why == Why::Asked) {
                    self.cancel = None;
                }
                self.follow_receipt(&event);
                if matches!(event, ChatEvent::Rule(_)) {
                    self.ask_rules();
                }
                self.show.events(event)
            }
        };
        for event in events {
            if matches!(
                event,
                AppEvent::TurnDone
                    | AppEvent::Blocked(_)
                    | AppEvent::ModelError(_)
                    | AppEvent::Interrupted
                    | AppEvent::Cut { .. }
            ) {
                self.cancel = None;
            }
            self.app(event);
        }
    }

    /// The newest receipt's line in the pane, when it is spent and when its call ended.
    fn follow_receipt(&mut self, event: &ChatEvent) {
        match event {
            ChatEvent::Passed(view) => {
                let id = view.claims.id;
                self.turns.insert(id, view.turn);
                // A turn with tools makes several calls: the one before has its outcome by now.
                if let Some(before) = self.latest.replace(id) {
                    self.ask(receipts::Wanted::Row(before, self.turns.clone()));
                }
                return self.ask(receipts::Wanted::Running(id, self.turns.clone()));
            }
            ChatEvent::Ended(End::Refused { turn, refusal, .. }) => {
                self.latest = refusal.receipt;
                self.turns.extend(refusal.receipt.map(|id| (id, *turn)));
            }
            ChatEvent::Ended(_) | ChatEvent::Compacted(_) => {}
            _ => return,
        }
        if let Some(id) = self.latest {
            self.ask(receipts::Wanted::Row(id, self.turns.clone()));
        }
    }

    /// The rules that wait for the person, for the files pane.
    fn ask_rules(&self) {
        if let Some(scope) = self.work.as_ref().map(|work| work.rules.clone()) {
            self.ask(receipts::Wanted::Rules(scope));
        }
    }

    /// Stops what runs, lets it record its outcome, and gives the session up.
    async fn close(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
        }
        let Some(Work { rooms, commands, questions, tasks: [engine, answers], .. }) = self.work.take() else {
            return;
        };
        drop((rooms, commands, questions));
        // One that takes longer loses nothing: its receipt is spent, and the next start says so.
        let _ = timeout(CLOSING, async { (engine.await, answers.await) }).await;
    }

    async fn leave(&mut self) -> Result<(), Failure> {
        self.save_draft().await;
        Ok(())
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The receipts pane's task: one question after the other, so that no older answer replaces a newer one.
async fn inquire(
    rooms: Arc<Rooms>,
    mut session: agentspine_gate::Id,
    mut asked: UnboundedReceiver<receipts::Wanted>,
    news: UnboundedSender<News>,
) {
    while let Some(wanted) = asked.recv().await {
        if let receipts::Wanted::Session(other) = wanted {
            session = other;
            continue;
        }
        for event in receipts::answer(&rooms.desk, session.clone(), wanted).await {
            let _ = news.send(News::App(event));
        }
    }
}

/// The engine's task: one command after the other.
async fn serve(mut engine: Engine, mut commands: UnboundedReceiver<Command>, news: UnboundedSender<News>) {
    while let Some(command) = commands.recv().await {
        let (out, mut heard) = mpsc::unbounded_channel();
        let relay = async {
            while let Some(event) = heard.recv().await {
                let _ = news.send(News::Chat(event));
            }
        };
        match command {
            Command::Prompt(prompt, cancel) => drop(tokio::join!(engine.prompt(prompt, out, &cancel), relay)),
            Command::Retry(cancel) => drop(tokio::join!(engine.retry(out, &cancel), relay)),
            Command::Model(target) => engine.set_target(target),
            Command::Host(host) => engine.set_instruction_host(host),
            Command::Compact(cancel) => drop(tokio::join!(engine.compact(out, &cancel), relay)),
            Command::Fork => {
                let told = match engine.fork_here().await {
                    Ok(forked) => News::Forked(forked),
                    Err(failure) => {
                        let (message, advice) = failure.words();
                        let text = format!("{message}. {advice}");
                        News::App(AppEvent::Notice { level: Level::Warn, text })
                    }
                };
                let _ = news.send(told);
            }
        }
    }
    engine.finish().await;
}
