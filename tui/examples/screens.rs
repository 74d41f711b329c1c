//! Shows one scripted state in the terminal: `cargo run -p agentspine-tui --example screens -- answer [ascii] [mono]`.
//! Keys work as in the chat; nothing is sent anywhere. Ctrl+C twice leaves.

use std::time::{Duration, Instant};

use agentspine_tui::{Effect, Event, Theme, tick_ms, update, view};

#[allow(dead_code)]
#[path = "../tests/screen/scripts.rs"]
mod scripts;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| args.iter().any(|a| a == word);
    let theme = Theme { ascii: has("ascii"), no_color: has("mono"), still: has("still") };
    let mut terminal = ratatui::init();
    crossterm::execute!(std::io::stdout(), crossterm::event::EnableBracketedPaste)?;
    let size = terminal.size()?;
    let name = args.first().map_or("answer", String::as_str);
    let mut state = scripts::script(name, (size.width, size.height), theme);
    let mut last = Instant::now();
    loop {
        terminal.draw(|frame| view(&state, frame))?;
        let event = match tick_ms(&state) {
            Some(ms) if !crossterm::event::poll(Duration::from_millis(ms))? => {
                let ms = u64::try_from(last.elapsed().as_millis()).unwrap_or(u64::MAX);
                last = Instant::now();
                Event::Tick { ms }
            }
            _ => Event::Input(crossterm::event::read()?),
        };
        if update(&mut state, event).contains(&Effect::Quit) {
            break;
        }
    }
    crossterm::execute!(std::io::stdout(), crossterm::event::DisableBracketedPaste)?;
    ratatui::restore();
    Ok(())
}
