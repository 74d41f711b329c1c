//! The watch through its public door: news, keys, and screens of every size.

use agentspine_tui::watch::{
    CALLS_MAX, CallDetail, CallRow, CallState, Effect, Event, Injected, Watch, update, view,
};
use agentspine_tui::{ReceiptDetail, Theme, Verdict};
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const STATES: [CallState; 12] = [
    CallState::Prepared,
    CallState::Underway,
    CallState::Answered,
    CallState::Failed,
    CallState::Cut,
    CallState::Interrupted,
    CallState::NotSent,
    CallState::Unknown,
    CallState::Void,
    CallState::Refused,
    CallState::Expired,
    CallState::Broken,
];

fn row(n: usize, state: CallState) -> CallRow {
    CallRow {
        id: format!("{n:032x}"),
        short: format!("{n:08x}"),
        at: format!("16:{:02}:{:02}", n / 60 % 60, n % 60),
        host: "claude".into(),
        kind: "turn".into(),
        sort: n.is_multiple_of(2).then(|| "Human".into()),
        model: "claude-sonnet-5-5".into(),
        session: format!("s-{n}"),
        state,
        status: (state == CallState::Failed).then_some(529),
        files: 4,
        rules: 2,
        recalled: 3,
        failed: u32::from(n.is_multiple_of(3)),
        took_ms: Some(1_900),
        reason: if state == CallState::Refused { "provider-failed/timeout".into() } else { String::new() },
    }
}

fn detail(n: usize, text: &str) -> Event {
    let fields = vec![("policyRevision".to_owned(), "3".to_owned())];
    let id = format!("{n:032x}");
    Event::Detail(Box::new(CallDetail {
        summary: vec![("state".into(), "answered".into()), ("files".into(), "project/CLAUDE.md".into())],
        injected: Injected::Text { text: text.into(), check: Verdict { ok: true, text: "as bound".into() } },
        receipt: ReceiptDetail { id, fields, verify: None, json: "{\n  \"claims\": {}\n}".into() },
    }))
}

fn watch(size: (u16, u16), calls: usize) -> Watch {
    let mut watch = Watch::new(Theme::default(), size);
    update(&mut watch, Event::Calls((0..calls).map(|n| row(n, CallState::Answered)).collect()));
    watch
}

fn press(watch: &mut Watch, code: KeyCode) -> Vec<Effect> {
    update(watch, Event::Input(Input::Key(KeyEvent::new(code, KeyModifiers::NONE))))
}

fn key(watch: &mut Watch, letter: char) -> Vec<Effect> {
    press(watch, KeyCode::Char(letter))
}

fn picture(watch: &Watch, (columns, rows): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| view(watch, frame)).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end()).collect::<Vec<_>>().join("\n")
}

/// The rows of the list, as far as their first cell.
fn listed(watch: &Watch, size: (u16, u16)) -> Vec<String> {
    let text = picture(watch, size);
    let rows = text.lines().filter(|line| line.chars().skip(2).take(3).eq("16:".chars()));
    rows.map(|line| line.chars().take(10).collect()).collect()
}

#[test]
fn every_state_has_its_place_at_each_size() {
    let calls: Vec<CallRow> = STATES.into_iter().enumerate().map(|(n, state)| row(n, state)).collect();
    for size in [(80, 24), (120, 36)] {
        let mut watch = Watch::new(Theme::default(), size);
        let effects = update(&mut watch, Event::Calls(calls.clone()));
        assert_eq!(effects, [Effect::Show(row(11, CallState::Broken).id)]);
        update(&mut watch, detail(11, "The word is harbour.\n"));
        insta::assert_snapshot!(format!("watch_{}x{}", size.0, size.1), picture(&watch, size));
    }
}

#[test]
fn news_never_moves_what_a_person_reads() {
    let size = (80, 24);
    let mut watch = watch(size, 40);
    key(&mut watch, 'k');
    let before = listed(&watch, size);
    update(&mut watch, Event::Calls((40..60).map(|n| row(n, CallState::Answered)).collect()));
    assert_eq!(listed(&watch, size), before);
    assert!(picture(&watch, size).contains("20 new: G"));
    // Also when the oldest are forgotten.
    update(&mut watch, Event::Calls((60..CALLS_MAX + 10).map(|n| row(n, CallState::Answered)).collect()));
    assert_eq!(listed(&watch, size), before);
    assert_eq!(key(&mut watch, 'f'), [Effect::Show(row(CALLS_MAX + 9, CallState::Answered).id)]);
    assert!(picture(&watch, size).contains("following"));
}

#[test]
fn a_call_that_changes_keeps_its_line_and_its_open_detail_is_read_again() {
    let size = (80, 24);
    let mut watch = watch(size, 3);
    update(&mut watch, detail(2, "text"));
    assert_eq!(update(&mut watch, Event::Calls(vec![row(1, CallState::Cut)])), []);
    let again = update(&mut watch, Event::Calls(vec![row(2, CallState::Failed)]));
    assert_eq!(again, [Effect::Show(row(2, CallState::Failed).id)]);
    assert_eq!(listed(&watch, size), ["  16:00:00", "  16:00:01", "▸ 16:00:02"]);
}

#[test]
fn the_filter_finds_text_and_session_and_escape_shows_all() {
    let mut watch = watch((80, 24), 30);
    key(&mut watch, '/');
    for letter in "s-17".chars() {
        key(&mut watch, letter);
    }
    press(&mut watch, KeyCode::Enter);
    assert_eq!(listed(&watch, (80, 24)), ["▸ 16:00:17"]);
    press(&mut watch, KeyCode::Esc);
    assert_eq!(listed(&watch, (80, 24)).len(), 9);
    // A letter that is a key is a letter while one filters.
    key(&mut watch, '/');
    assert_eq!(key(&mut watch, 'q'), []);
}

#[test]
fn an_open_call_scrolls_no_further_than_its_end_and_stays_while_news_come() {
    let size = (80, 24);
    let mut watch = watch(size, 3);
    let text = (0..100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    update(&mut watch, detail(2, &text));
    press(&mut watch, KeyCode::Enter);
    for _ in 0..50 {
        press(&mut watch, KeyCode::PageDown);
    }
    assert!(picture(&watch, size).contains("policyRevision"));
    let before = picture(&watch, size).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    update(&mut watch, Event::Calls(vec![row(9, CallState::Answered)]));
    assert_eq!(picture(&watch, size).lines().skip(1).collect::<Vec<_>>(), before);
    press(&mut watch, KeyCode::Up);
    assert_ne!(picture(&watch, size).lines().skip(1).collect::<Vec<_>>(), before);
    press(&mut watch, KeyCode::Esc);
    assert!(picture(&watch, size).contains("1 new: G"));
}

#[test]
fn text_of_other_programs_steers_no_terminal() {
    let mut watch = Watch::new(Theme::default(), (200, 50));
    let evil = "\u{1b}]52;c;eA==\u{7}\u{202e}\r";
    let call = CallRow { model: evil.into(), session: evil.into(), ..row(1, CallState::Answered) };
    update(&mut watch, Event::Calls(vec![call]));
    update(&mut watch, detail(1, evil));
    update(&mut watch, Event::Trouble { message: evil.into(), advice: evil.into() });
    let text = picture(&watch, (200, 50));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
}

#[test]
fn no_size_and_no_state_ends_in_a_panic() {
    let calls: Vec<CallRow> = STATES.into_iter().enumerate().map(|(n, state)| row(n, state)).collect();
    for (columns, rows) in [(1, 1), (2, 3), (20, 5), (40, 10), (79, 11), (119, 60), (120, 4), (250, 80)] {
        let size = (columns, rows);
        let mut watch = Watch::new(Theme { ascii: true, ..Theme::default() }, size);
        picture(&watch, size);
        update(&mut watch, Event::Waiting);
        update(&mut watch, Event::Calls(calls.clone()));
        update(&mut watch, detail(11, &"word ".repeat(300)));
        update(&mut watch, Event::Trouble { message: "m".into(), advice: "a".into() });
        for letter in ['k', 'g', 'J', 'v', '?', 'j', '?', 'J', 'G', 'f'] {
            key(&mut watch, letter);
            picture(&watch, size);
        }
        press(&mut watch, KeyCode::Enter);
        press(&mut watch, KeyCode::PageDown);
        assert!(picture(&watch, size).is_ascii());
        update(&mut watch, Event::Input(Input::Resize(60, 12)));
        picture(&watch, (60, 12));
        update(&mut watch, Event::Anew);
        picture(&watch, size);
    }
}
