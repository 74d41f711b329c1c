//! The screens of `agentspine chat` and `agentspine watch`: [`update`] takes an event and gives effects, [`view`] draws the state.
//!
//! The map: `data` and `event` are what crosses the border; `state` is everything the screen knows; `update` holds
//! the keys and the news; `transcript`, `composer`, `markdown` and `text` are the parts that know one thing well;
//! `view` draws;
//! [`watch`] is the other screen, of `agentspine watch`.
//!
//! Invariants: this crate knows nothing of the gate, of models, files or clocks, and sets up no terminal. The same
//! events give the same screen. While nothing moves, [`tick_ms`] is `None`: nothing wakes, nothing is written. Text a person wrote
//! leaves the composer only by being sent, deleted by them, or kept in the history. Foreign text is scrubbed where it
//! enters the state.
//!
//! ```
//! use agentspine_tui::{AppEvent, Effect, Event, Setup, State, update};
//! use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
//!
//! let mut state = State::new(Setup { size: (80, 24), ..Setup::default() });
//! update(&mut state, Event::Input(Input::Paste("hello".into())));
//! let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
//! let effects = update(&mut state, Event::Input(Input::Key(enter)));
//! assert_eq!(effects.first(), Some(&Effect::Send { prompt: "hello".into() }));
//! update(&mut state, AppEvent::TurnStarted { turn: 1, prompt: "hello".into() }.into());
//! ```

mod composer;
mod data;
mod event;
mod markdown;
mod state;
mod text;
mod theme;
mod transcript;
mod update;
mod view;
pub mod watch;

pub use data::{
    Blocked, CallKind, Candidate, InstructionHost, InstructionRow, Instructions, LeftOut, Level, ModelError,
    Preflight, ProviderRow, ProviderStatus, Recall, RecallItem, ReceiptDetail, ReceiptRow, ReceiptState,
    Usage, Verdict, Wishes,
};
pub use event::{AppEvent, Effect, Event};
pub use state::{COUNTDOWN_MS, SPINNER_MS, Setup, State, needs_tick, tick_ms};
pub use text::scrub;
pub use theme::Theme;
pub use update::update;
pub use view::view;
