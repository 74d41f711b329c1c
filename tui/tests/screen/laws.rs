//! Laws that hold whatever happens.

use agentspine_tui::{AppEvent, Effect, Event, Level, ModelError, State, Theme, scrub, update};
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;

use crate::scripts::{
    answered, app, block, chord, detail, instructions, key, list, new, preflight, recall, row,
};
use crate::{cells, picture};

const EVIL: &str = "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{9b}31m\u{202e}gnp.exe\u{200b}\u{0}\r\u{8}\tend";

#[test]
fn no_escape_of_foreign_text_reaches_a_cell() {
    let mut s = new((120, 36), Theme::default());
    let evil = || EVIL.to_owned();
    let mut r = recall(1);
    r.providers[0].id = evil();
    r.items[0].text = evil();
    r.items[1].source = evil();
    let mut files = instructions();
    files.rows[0].id = evil();
    files.rows[1].state = evil();
    let mut receipt = row("7c1e", 1, agentspine_tui::ReceiptState::Consumed, "16:21", "x");
    receipt.call = evil();
    receipt.short = evil();
    let mut p = preflight(1);
    p.receipt = evil();
    let mut d = detail();
    d.fields[0].1 = evil();
    d.json = evil();
    app(
        &mut s,
        vec![
            AppEvent::ModelNamed { label: evil(), note: evil() },
            AppEvent::TurnStarted { turn: 1, prompt: evil() },
            AppEvent::Instructions(files),
            AppEvent::Recall(r),
            AppEvent::Preflight(p),
            AppEvent::Receipt(receipt.clone()),
            AppEvent::Delta(format!(
                "{EVIL}\n\n```{EVIL}\n{EVIL}\n```\n[x]({EVIL})\n\n| a |\n|---|\n| {EVIL} |\n"
            )),
            AppEvent::ToolCall { name: evil(), line: evil() },
            AppEvent::ToolResult { ok: false, line: evil() },
            AppEvent::Cut { reason: evil() },
            AppEvent::CompactionStarted { line: evil() },
            AppEvent::CompactionDone { level: Level::Good, line: evil(), summary: evil() },
            AppEvent::CompactionStarted { line: evil() },
            AppEvent::Notice { level: Level::Warn, text: evil() },
            AppEvent::Receipts(vec![receipt]),
            AppEvent::ReceiptDetail(d),
        ],
    );
    update(&mut s, Event::Input(Input::Paste(EVIL.into())));
    for open in [KeyCode::Esc, KeyCode::F(3), KeyCode::Enter, KeyCode::Char('J'), KeyCode::F(4)] {
        key(&mut s, open);
        for cell in &cells(&s, (120, 36)).content {
            let bad = cell.symbol().chars().any(char::is_control);
            assert!(!bad, "{:?}", cell.symbol());
        }
    }
    assert!(!scrub(EVIL).contains(|c: char| c.is_control() && c != '\t'));
}

#[test]
fn a_copy_is_source_without_control_characters() {
    let mut s = new((80, 24), Theme::default());
    let source = "```make\nall:\n\tcc -o x\n```\n";
    app(
        &mut s,
        vec![
            AppEvent::TurnStarted { turn: 1, prompt: "q".into() },
            AppEvent::Delta(format!("{source}\u{1b}")),
            AppEvent::TurnDone,
        ],
    );
    key(&mut s, KeyCode::Tab);
    assert_eq!(key(&mut s, KeyCode::Char('y')), [Effect::Copy(format!("{source}␛"))]);
}

fn lines(n: usize) -> String {
    (0..n).fold(String::new(), |all, k| all + &format!("line {k}\n\n"))
}

/// The transcript's rows.
fn reading(s: &State) -> Vec<String> {
    let text = picture(s, (80, 24));
    text.lines().skip(1).take(14).map(str::to_owned).collect()
}

#[test]
fn the_reading_position_moves_by_keys_alone() {
    let mut s = new((80, 24), Theme::default());
    app(&mut s, vec![AppEvent::TurnStarted { turn: 1, prompt: "q".into() }, AppEvent::Delta(lines(40))]);
    assert!(reading(&s).concat().contains("line 39"));
    key(&mut s, KeyCode::PageUp);
    let here = reading(&s);
    app(
        &mut s,
        vec![
            AppEvent::Delta(lines(21)),
            AppEvent::TurnDone,
            AppEvent::TurnStarted { turn: 2, prompt: "r".into() },
        ],
    );
    app(
        &mut s,
        vec![
            AppEvent::Delta(lines(3)),
            AppEvent::ModelError(ModelError {
                turn: 2,
                message: "500".into(),
                retry_after_s: None,
                retryable: false,
            }),
        ],
    );
    assert_eq!(reading(&s), here);
    assert!(picture(&s, (80, 24)).contains("new lines (End)"));
    key(&mut s, KeyCode::End);
    assert!(!picture(&s, (80, 24)).contains("(End)"));
    chord(&mut s, KeyCode::Home, KeyModifiers::CONTROL);
    assert!(reading(&s)[0].starts_with("› q"));
    chord(&mut s, KeyCode::Down, KeyModifiers::SHIFT);
    chord(&mut s, KeyCode::Up, KeyModifiers::SHIFT);
    assert!(reading(&s)[0].starts_with("› q"));
}

#[test]
fn a_storm_of_sizes_ends_as_a_fresh_screen() {
    let mut s = new((80, 24), Theme::default());
    answered(&mut s, 1);
    for n in 0..100_u16 {
        let size = (20 + n * 7 % 160, 4 + n * 5 % 50);
        update(&mut s, Event::Input(Input::Resize(size.0, size.1)));
        cells(&s, size);
    }
    update(&mut s, Event::Input(Input::Resize(120, 36)));
    let mut fresh = new((120, 36), Theme::default());
    answered(&mut fresh, 1);
    assert_eq!(cells(&s, (120, 36)), cells(&fresh, (120, 36)));
}

#[test]
fn five_thousand_turns_are_drawn_and_paged_without_laying_them_all_out() {
    let mut s = new((80, 24), Theme::default());
    for turn in 1..=5000 {
        app(
            &mut s,
            vec![
                AppEvent::TurnStarted { turn, prompt: format!("prompt {turn}") },
                AppEvent::Delta(format!("answer **{turn}**\n\n- a\n- b\n")),
                AppEvent::TurnDone,
            ],
        );
    }
    assert!(reading(&s).concat().contains("answer 5000"));
    for _ in 0..50 {
        key(&mut s, KeyCode::PageUp);
        cells(&s, (80, 24));
    }
    chord(&mut s, KeyCode::Home, KeyModifiers::CONTROL);
    assert!(reading(&s)[0].starts_with("› prompt 1"));
}

/// Keys that cannot delete text, and news of every kind.
fn harmless() -> impl Strategy<Value = Event> {
    let code = prop_oneof![
        Just(KeyCode::Up),
        Just(KeyCode::Down),
        Just(KeyCode::Left),
        Just(KeyCode::Right),
        Just(KeyCode::Tab),
        Just(KeyCode::BackTab),
        Just(KeyCode::Esc),
        Just(KeyCode::Enter),
        Just(KeyCode::PageUp),
        Just(KeyCode::PageDown),
        Just(KeyCode::Home),
        Just(KeyCode::End),
        (1_u8..13).prop_map(KeyCode::F),
        proptest::sample::select("abcdejkrvyqJ/?12 日".chars().collect::<Vec<_>>()).prop_map(KeyCode::Char),
    ];
    let modifiers = prop_oneof![Just(KeyModifiers::NONE), Just(KeyModifiers::SHIFT)];
    let press = (code, modifiers).prop_map(|(c, m)| Event::Input(Input::Key(KeyEvent::new(c, m))));
    let control = proptest::sample::select("aebfjclpn".chars().collect::<Vec<_>>());
    let control = control
        .prop_map(|c| Event::Input(Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL))));
    let size = (1_u16..200, 1_u16..60).prop_map(|(w, h)| Event::Input(Input::Resize(w, h)));
    let paste = "[a-z\n]{0,1200}".prop_map(|t| Event::Input(Input::Paste(t)));
    prop_oneof![8 => press, 3 => control, 1 => size, 1 => paste, 6 => news(), 1 => Just(Event::Tick { ms: 125 })]
}

fn news() -> impl Strategy<Value = Event> {
    let turn = 1_u64..5;
    let app = prop_oneof![
        (turn.clone(), "[a-z ]{1,9}").prop_map(|(turn, prompt)| AppEvent::TurnStarted { turn, prompt }),
        turn.clone().prop_map(|t| AppEvent::Preflight(preflight(t))),
        turn.clone().prop_map(|t| AppEvent::Recall(recall(t))),
        Just(AppEvent::Instructions(instructions())),
        "[ -~\n]{0,40}".prop_map(AppEvent::Delta),
        Just(AppEvent::ToolCall { name: "t".into(), line: "l".into() }),
        Just(AppEvent::ToolResult { ok: true, line: "l".into() }),
        Just(AppEvent::TurnDone),
        turn.clone().prop_map(|turn| {
            let mut b = block();
            b.turn = turn;
            AppEvent::Blocked(b)
        }),
        turn.clone().prop_map(|turn| AppEvent::ModelError(ModelError {
            turn,
            message: "429".into(),
            retry_after_s: Some(3),
            retryable: true,
        })),
        Just(AppEvent::Cut { reason: "cut".into() }),
        Just(AppEvent::Interrupted),
        Just(AppEvent::Receipts(list())),
        Just(AppEvent::ReceiptDetail(detail())),
        Just(AppEvent::ServerFound { name: "local".into() }),
        Just(AppEvent::AskInstructionHost),
        Just(AppEvent::AskModel { choices: vec!["a".into(), "b".into()] }),
        Just(AppEvent::AskSession { choices: vec!["a".into(), "b".into()] }),
        "[a-z]{0,8}".prop_map(|line| AppEvent::CompactionStarted { line }),
        any::<u64>().prop_map(|bytes| AppEvent::CompactionProgress { bytes }),
        "[a-z\\n]{0,20}".prop_map(|summary| AppEvent::CompactionDone {
            level: Level::Good,
            line: "done".into(),
            summary,
        }),
        Just(AppEvent::Draft("restored".into())),
    ];
    app.prop_map(Event::from)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn nothing_panics_and_no_written_text_is_lost(
        before in proptest::collection::vec(harmless(), 0..25),
        after in proptest::collection::vec(harmless(), 0..25),
    ) {
        let mut s = new((80, 24), Theme::default());
        let mut size = (80, 24);
        let mut sent = Vec::new();
        let mark = Event::Input(Input::Paste("<<kept>>".into()));
        for (n, event) in before.into_iter().chain([mark.clone()]).chain(after.clone()).enumerate() {
            if let Event::Input(Input::Resize(w, h)) = event {
                size = (w, h);
            }
            let marks = event == mark;
            for effect in update(&mut s, event) {
                if let Effect::Send { prompt } = effect {
                    sent.push(prompt);
                }
            }
            // A paste may also go to the filter of the receipts, which is no text to keep.
            prop_assume!(!marks || s.draft().contains("<<kept>>"));
            if n % 5 == 0 {
                cells(&s, size);
            }
        }
        cells(&s, size);
        let mut known = s.reachable_texts().into_iter().chain(sent);
        // Keys typed inside the mark split it; its letters are all still there, in order.
        let inside = |text: String| {
            let mut rest = text.chars();
            "<<kept>>".chars().all(|c| rest.any(|t| t == c))
        };
        prop_assert!(known.any(inside));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn no_key_panics(presses in proptest::collection::vec((any::<char>(), 0_u8..24, 0_u8..8), 0..60)) {
        let named = [
            KeyCode::Backspace, KeyCode::Delete, KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::Up, KeyCode::Down,
            KeyCode::Home, KeyCode::End, KeyCode::Insert, KeyCode::F(2), KeyCode::F(3), KeyCode::F(4),
        ];
        let mut s = new((100, 28), Theme::default());
        answered(&mut s, 1);
        for (c, pick, modifiers) in presses {
            let code = named.get(usize::from(pick)).copied().unwrap_or(KeyCode::Char(c));
            chord(&mut s, code, KeyModifiers::from_bits_truncate(modifiers));
            cells(&s, (100, 28));
        }
    }
}
