//! `agentspine watch`: every call of this machine on the whole screen, for a split beside an agent.
//!
//! Two hands: a thread reads the journal and the conversation store, both read-only; the loop here takes keys, news and
//! signals, and draws only when something changed.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use agentspine_gate::{Id, Refusal};
use agentspine_tui::Theme;
use agentspine_tui::watch::{Effect, Event, Watch, update, view};
use clap::Args;
use crossterm::event::EventStream;
use futures_util::StreamExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use super::flags::id;
use super::rooms::place;
use crate::config::{Config, Flags};
use crate::receipts::live::{Live, News, POLL, Seen};
use crate::report::{Exit, Failure, is_interactive};
use crate::terminal::{self, Signals, Terminal, no_terminal};

/// Calls of before that are shown at first.
const FIRST: u32 = 200;
/// After a refusal the journal is looked at this seldom.
const TROUBLED: Duration = Duration::from_secs(1);
/// Frames are at least this far apart: 60 a second.
const FRAME_PAUSE: Duration = Duration::from_millis(16);

/// Every call as it happens, full screen, for a split beside an agent
#[derive(Args)]
#[command(
    after_help = "Shows calls of every agent and chat on this machine: state, files, rules, recall, why one was refused.
Enter opens what its receipt binds and the text it injected. Nothing is written, no call is held up.

Examples:
  agentspine watch
  agentspine watch --session s-81
  agentspine receipts --follow        the same as lines"
)]
pub(super) struct WatchArgs {
    /// Only calls of this session
    #[arg(long, value_name = "ID", value_parser = id)]
    session: Option<Id>,
    /// Signs and frames in ASCII
    #[arg(long)]
    ascii: bool,
}

impl WatchArgs {
    pub(super) fn flags(&self) -> Flags {
        Flags { ascii: self.ascii, ..Flags::default() }
    }
}

/// Watches until the person leaves.
pub(super) fn run(args: &WatchArgs, config: &Config) -> Result<(), Failure> {
    if !is_interactive() || config.ui.is_dumb() {
        return Err(Failure::usage("watch needs a terminal for itself", "agentspine receipts --follow"));
    }
    let live = Live::new(place(config), FIRST, args.session.clone());
    let theme = Theme { ascii: config.ui.ascii, no_color: config.ui.no_color, still: false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| no_terminal(&error))?.block_on(watch(theme, live))
}

/// What the reading thread is asked.
enum Asked {
    Show(String),
    Verify,
}

async fn watch(theme: Theme, live: Live) -> Result<(), Failure> {
    let mut terminal = Terminal::take().map_err(|error| no_terminal(&error))?;
    let size = crossterm::terminal::size().map_err(|error| no_terminal(&error))?;
    let (news, inbox) = unbounded_channel();
    let (ask, asked) = mpsc::channel();
    let mut screen = Screen { watch: Watch::new(theme, size), ask, drawn: None, dirty: true };
    // First paint before any database is touched.
    screen.draw(&mut terminal)?;
    let reader =
        std::thread::Builder::new().name("journal".to_owned()).spawn(move || read(live, &asked, &news));
    let reader = reader.map_err(|error| no_terminal(&error))?;
    let ended = screen.follow(&mut terminal, inbox).await;
    drop((terminal, screen));
    // It ends with the sender of its questions; a long verification is not waited for.
    drop(reader);
    ended
}

struct Screen {
    watch: Watch,
    ask: Sender<Asked>,
    /// When the last frame was drawn.
    drawn: Option<Instant>,
    dirty: bool,
}

/// Whether the loop goes on.
enum Next {
    Go,
    Quit,
}

impl Screen {
    async fn follow(
        &mut self,
        terminal: &mut Terminal,
        mut inbox: UnboundedReceiver<Event>,
    ) -> Result<(), Failure> {
        let mut keys = EventStream::new();
        let mut signals = Signals::new()?;
        loop {
            let due = self.frame(terminal)?;
            tokio::select! {
                key = keys.next() => match key {
                    Some(Ok(event)) => {
                        // A key is answered at once.
                        self.drawn = None;
                        if matches!(event, crossterm::event::Event::Resize(..)) {
                            // A window that went small and came back has the size it had, and lost what it showed.
                            terminal.forget().map_err(|error| no_terminal(&error))?;
                        }
                        if let Next::Quit = self.take(Event::Input(event), terminal)? {
                            return Ok(());
                        }
                    }
                    Some(Err(error)) => return Err(no_terminal(&error)),
                    None => return Ok(()),
                },
                Some(event) = inbox.recv() => {
                    self.take(event, terminal)?;
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                () = signals.recv() => return Err(Failure::Told(Exit::Interrupted)),
            }
        }
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
        terminal.draw(|frame| view(&self.watch, frame)).map_err(|error| no_terminal(&error))
    }

    fn take(&mut self, event: Event, terminal: &mut Terminal) -> Result<Next, Failure> {
        self.dirty = true;
        for effect in update(&mut self.watch, event) {
            match effect {
                // The reader's thread lives as long as this sender.
                Effect::Show(id) => drop(self.ask.send(Asked::Show(id))),
                Effect::Verify => drop(self.ask.send(Asked::Verify)),
                Effect::Copy(text) => terminal::copy(&text),
                Effect::Suspend => {
                    Terminal::leave();
                    terminal::suspend();
                    terminal.retake().map_err(|error| no_terminal(&error))?;
                }
                Effect::Redraw => terminal.forget().map_err(|error| no_terminal(&error))?,
                Effect::Quit => return Ok(Next::Quit),
            }
        }
        Ok(Next::Go)
    }
}

/// The reading thread: looks for news, answers questions, until nobody asks or listens any more.
fn read(mut live: Live, asked: &Receiver<Asked>, news: &UnboundedSender<Event>) {
    let mut waiting = false;
    loop {
        let found = live.poll();
        let pause = if found.is_err() { TROUBLED } else { POLL };
        let told = match found {
            Ok(Some(News::Waiting)) if waiting => Ok(()),
            Ok(None) => Ok(()),
            found => {
                waiting = matches!(found, Ok(Some(News::Waiting)));
                events(found).into_iter().try_for_each(|event| news.send(event))
            }
        };
        if told.is_err() {
            return;
        }
        match asked.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(first) => {
                for event in answer(&mut live, first, asked) {
                    let _ = news.send(event);
                }
            }
        }
    }
}

fn events(found: Result<Option<News>, Refusal>) -> Vec<Event> {
    let rows = |seen: Vec<Seen>| Event::Calls(seen.into_iter().map(|seen| seen.row).collect());
    match found {
        Ok(None) => Vec::new(),
        Ok(Some(News::Waiting)) => vec![Event::Waiting],
        Ok(Some(News::Opened(seen))) => vec![Event::Anew, rows(seen)],
        Ok(Some(News::Calls(seen))) => vec![rows(seen)],
        Err(refusal) => vec![trouble(refusal)],
    }
}

fn trouble(refusal: Refusal) -> Event {
    Event::Trouble { message: format!("{}: {}", refusal.key(), refusal.message), advice: refusal.advice }
}

/// Answers what waits: of the calls asked for, only the last is still on the screen.
fn answer(live: &mut Live, first: Asked, asked: &Receiver<Asked>) -> Vec<Event> {
    let (mut show, mut verify) = (None, false);
    for question in std::iter::once(first).chain(asked.try_iter()) {
        match question {
            Asked::Show(id) => show = Some(id),
            Asked::Verify => verify = true,
        }
    }
    let shown = show.and_then(|id| {
        live.whole(&id).map(|whole| whole.map(|whole| Event::Detail(Box::new(whole)))).transpose()
    });
    let shown = shown.map(|shown| shown.unwrap_or_else(trouble));
    shown.into_iter().chain(verify.then(|| Event::Verified(live.verify()))).collect()
}
