//! Key chains, pastes, the blocked turn, the receipts screen.

use agentspine_tui::{
    AppEvent, Effect, Event, InstructionHost, Level, ModelError, State, Theme, Usage, needs_tick, tick_ms,
    update,
};
use crossterm::event::{Event as Input, KeyCode, KeyModifiers};

use crate::picture;
use crate::scripts::{answered, app, block, chord, detail, key, list, new, preflight, script};

fn state() -> State {
    new((80, 24), Theme::default())
}

fn type_text(state: &mut State, text: &str) {
    text.chars().for_each(|c| drop(key(state, KeyCode::Char(c))));
}

fn ctrl(state: &mut State, c: char) -> Vec<Effect> {
    chord(state, KeyCode::Char(c), KeyModifiers::CONTROL)
}

fn paste(state: &mut State, text: &str) {
    update(state, Event::Input(Input::Paste(text.into())));
}

fn send(state: &mut State, text: &str) {
    type_text(state, text);
    key(state, KeyCode::Enter);
}

#[test]
fn enter_sends_the_untrimmed_text_and_empties_the_draft_behind_it() {
    let mut s = state();
    type_text(&mut s, "hello ");
    assert_eq!(
        key(&mut s, KeyCode::Enter),
        [Effect::Send { prompt: "hello ".into() }, Effect::SaveDraft(String::new())]
    );
    assert!(s.is_running());
}

#[test]
fn four_keys_make_a_new_line() {
    let mut s = state();
    type_text(&mut s, "a");
    ctrl(&mut s, 'j');
    chord(&mut s, KeyCode::Enter, KeyModifiers::SHIFT);
    chord(&mut s, KeyCode::Enter, KeyModifiers::ALT);
    type_text(&mut s, "b\\");
    key(&mut s, KeyCode::Enter);
    type_text(&mut s, "c");
    assert_eq!(s.draft(), "a\n\n\nb\nc");
}

#[test]
fn no_letter_acts_while_one_writes() {
    let mut s = state();
    answered(&mut s, 1);
    type_text(&mut s, "jkredvyqJ/?1");
    assert_eq!(s.draft(), "jkredvyqJ/?1");
}

#[test]
fn ctrl_c_stops_then_stashes_then_asks_then_quits() {
    let mut s = state();
    send(&mut s, "one");
    type_text(&mut s, "two");
    assert_eq!(ctrl(&mut s, 'c'), [Effect::Cancel]);
    assert_eq!(ctrl(&mut s, 'c'), [Effect::SaveDraft(String::new())]);
    assert_eq!(ctrl(&mut s, 'c'), []);
    assert!(picture(&s, (80, 24)).contains("Ctrl+C again to quit"));
    assert_eq!(ctrl(&mut s, 'c'), [Effect::Quit]);
    key(&mut s, KeyCode::Up);
    assert_eq!(s.draft(), "two");
}

#[test]
fn another_key_takes_back_the_first_ctrl_c() {
    let mut s = state();
    ctrl(&mut s, 'c');
    key(&mut s, KeyCode::Left);
    assert_eq!(ctrl(&mut s, 'c'), []);
}

#[test]
fn ctrl_d_quits_only_when_nothing_is_written() {
    let mut s = state();
    type_text(&mut s, "ab");
    key(&mut s, KeyCode::Home);
    assert_eq!(ctrl(&mut s, 'd'), [Effect::SaveDraft("b".into())]);
    ctrl(&mut s, 'd');
    assert_eq!(ctrl(&mut s, 'd'), [Effect::Quit]);
}

#[test]
fn esc_closes_then_leaves_then_stops_and_keeps_the_draft() {
    let mut s = state();
    send(&mut s, "one");
    type_text(&mut s, "next");
    key(&mut s, KeyCode::F(1));
    assert_eq!(key(&mut s, KeyCode::Esc), []);
    key(&mut s, KeyCode::Tab);
    assert_eq!(key(&mut s, KeyCode::Esc), []);
    assert_eq!(key(&mut s, KeyCode::Esc), [Effect::Cancel]);
    assert_eq!(s.draft(), "next");
}

#[test]
fn a_prompt_stopped_before_anything_came_returns() {
    let mut s = state();
    send(&mut s, "my question");
    app(&mut s, vec![AppEvent::TurnStarted { turn: 1, prompt: "my question".into() }]);
    key(&mut s, KeyCode::Esc);
    app(&mut s, vec![AppEvent::Interrupted]);
    assert_eq!(s.draft(), "my question");
    assert!(!s.is_running());
}

#[test]
fn an_answer_stopped_in_the_middle_stays_and_is_marked() {
    let mut s = state();
    send(&mut s, "q");
    app(
        &mut s,
        vec![
            AppEvent::TurnStarted { turn: 1, prompt: "q".into() },
            AppEvent::Delta("half an ans".into()),
            AppEvent::Interrupted,
        ],
    );
    assert_eq!(s.draft(), "");
    let text = picture(&s, (80, 24));
    assert!(text.contains("half an ans") && text.contains("You stopped the answer here."), "{text}");
}

#[test]
fn history_is_reached_only_from_the_edges_and_gives_the_draft_back() {
    let mut s = state();
    send(&mut s, "first");
    app(&mut s, vec![AppEvent::TurnStarted { turn: 1, prompt: "first".into() }, AppEvent::TurnDone]);
    paste(&mut s, "top\nbottom");
    key(&mut s, KeyCode::Up);
    assert_eq!(s.draft(), "top\nbottom");
    key(&mut s, KeyCode::Up);
    assert_eq!(s.draft(), "first");
    key(&mut s, KeyCode::Down);
    assert_eq!(s.draft(), "top\nbottom");
}

#[test]
fn an_edited_history_entry_is_not_lost() {
    let mut s = state();
    send(&mut s, "first");
    app(&mut s, vec![AppEvent::TurnStarted { turn: 1, prompt: "first".into() }, AppEvent::TurnDone]);
    key(&mut s, KeyCode::Up);
    type_text(&mut s, "!!");
    key(&mut s, KeyCode::Down);
    assert!(s.reachable_texts().contains(&"first!!".to_owned()));
}

#[test]
fn a_long_paste_is_one_word_until_it_is_sent() {
    let mut s = state();
    let long = "y/n?\tline\r\n".repeat(200);
    type_text(&mut s, "see ");
    paste(&mut s, &long);
    paste(&mut s, &long);
    assert!(picture(&s, (80, 24)).contains("see [Pasted 2000 chars][Pasted 2000 chars #2]"));
    key(&mut s, KeyCode::Backspace);
    let clean = "y/n?\tline\n".repeat(200);
    assert_eq!(key(&mut s, KeyCode::Enter).first(), Some(&Effect::Send { prompt: format!("see {clean}") }));
}

#[test]
fn a_paste_with_control_characters_shows_them() {
    let mut s = state();
    paste(&mut s, "a\u{1b}[31mb\u{0}c\rd");
    assert_eq!(s.draft(), "a␛[31mb␀c\nd");
}

#[test]
fn a_megabyte_pasted_is_kept_whole() {
    let mut s = state();
    let long = "x".repeat(1024 * 1024);
    paste(&mut s, &long);
    assert_eq!(s.draft(), long);
    assert!(picture(&s, (80, 24)).contains("[Pasted 1048576 chars]"));
}

#[test]
fn a_blocked_turn_has_the_keys_until_esc_and_gives_the_draft_back() {
    let mut s = state();
    send(&mut s, "Refactor the provider trait");
    app(&mut s, vec![AppEvent::Blocked(block())]);
    assert_eq!(s.draft(), "Refactor the provider trait");
    type_text(&mut s, "xz");
    assert_eq!(s.draft(), "Refactor the provider trait");
    assert_eq!(
        key(&mut s, KeyCode::Char('r')).first(),
        Some(&Effect::Send { prompt: "Refactor the provider trait".into() })
    );
    app(&mut s, vec![AppEvent::Blocked(block())]);
    key(&mut s, KeyCode::Char('d'));
    assert!(picture(&s, (80, 24)).starts_with(" Recall · turn 2"));
    key(&mut s, KeyCode::Esc);
    key(&mut s, KeyCode::Esc);
    type_text(&mut s, "!");
    assert_eq!(s.draft(), "Refactor the provider trait!");
}

#[test]
fn what_was_being_written_when_a_turn_blocked_is_one_key_away() {
    let mut s = state();
    send(&mut s, "Refactor the provider trait");
    type_text(&mut s, "already the next");
    app(&mut s, vec![AppEvent::Blocked(block())]);
    assert_eq!(s.draft(), "Refactor the provider trait");
    key(&mut s, KeyCode::Esc);
    key(&mut s, KeyCode::Up);
    assert_eq!(s.draft(), "already the next");
}

#[test]
fn a_failed_call_waits_for_r_and_counts_down() {
    let mut s = script("too-many", (80, 24), Theme::default());
    assert_eq!(tick_ms(&s), Some(agentspine_tui::COUNTDOWN_MS));
    update(&mut s, Event::Tick { ms: 20_000 });
    assert_eq!(tick_ms(&s), None);
    assert_eq!(key(&mut s, KeyCode::Char('r')), [Effect::Retry { turn: 1 }]);
    assert!(s.is_running());
}

#[test]
fn a_failed_call_does_not_take_keys_from_somebody_who_writes() {
    let mut s = state();
    send(&mut s, "q");
    app(&mut s, vec![AppEvent::TurnStarted { turn: 1, prompt: "q".into() }]);
    type_text(&mut s, "wo");
    let error = ModelError { turn: 1, message: "529".into(), retry_after_s: None, retryable: true };
    app(&mut s, vec![AppEvent::ModelError(error)]);
    type_text(&mut s, "rd");
    assert_eq!(s.draft(), "word");
}

#[test]
fn nothing_ticks_when_nothing_moves() {
    let mut s = state();
    assert!(!needs_tick(&s));
    answered(&mut s, 1);
    assert!(!needs_tick(&s));
    send(&mut s, "q");
    assert_eq!(tick_ms(&s), Some(agentspine_tui::SPINNER_MS));
    let mut still = new((80, 24), Theme { still: true, ..Theme::default() });
    send(&mut still, "q");
    assert_eq!(tick_ms(&still), None);
}

#[test]
fn the_host_question_is_answered_by_a_person_and_by_nothing_else() {
    let mut s = script("first-run", (80, 24), Theme::default());
    assert_eq!(key(&mut s, KeyCode::Esc), []);
    assert_eq!(key(&mut s, KeyCode::Char('2')), []);
    assert_eq!(key(&mut s, KeyCode::Enter), [Effect::ChooseInstructionHost(InstructionHost::Codex)]);
}

#[test]
fn a_found_server_gets_no_prompt_before_one_more_enter() {
    let mut s = script("server", (80, 24), Theme::default());
    let mut other = script("server", (80, 24), Theme::default());
    let yes = [
        Effect::AcceptServer(true),
        Effect::Send { prompt: "hello".into() },
        Effect::SaveDraft(String::new()),
    ];
    assert_eq!(key(&mut s, KeyCode::Enter), yes);
    assert_eq!(key(&mut other, KeyCode::Esc), [Effect::AcceptServer(false)]);
    assert_eq!(other.draft(), "hello");
}

#[test]
fn receipts_are_listed_opened_verified_copied_and_filtered() {
    let mut s = state();
    answered(&mut s, 5);
    let id = list()[0].id.clone();
    assert_eq!(key(&mut s, KeyCode::F(3)), [Effect::LoadReceipts]);
    assert_eq!(update(&mut s, AppEvent::Receipts(list()).into()), [Effect::ShowReceipt(id.clone())]);
    app(&mut s, vec![AppEvent::ReceiptDetail(detail())]);
    assert_eq!(key(&mut s, KeyCode::Char('v')), [Effect::VerifyReceipt(id.clone())]);
    assert_eq!(key(&mut s, KeyCode::Char('y')), [Effect::Copy(id)]);
    assert_eq!(key(&mut s, KeyCode::Down), [Effect::ShowReceipt(list()[1].id.clone())]);
    key(&mut s, KeyCode::Char('/'));
    type_text(&mut s, "expired");
    let text = picture(&s, (80, 24));
    assert!(text.contains("c7f3") && !text.contains("b04d"), "{text}");
    for _ in 0..3 {
        key(&mut s, KeyCode::Esc);
    }
    type_text(&mut s, "back");
    assert_eq!(s.draft(), "back");
}

#[test]
fn an_earlier_turn_shows_its_own_recall_and_receipt() {
    let mut s = state();
    answered(&mut s, 1);
    app(&mut s, vec![AppEvent::TurnStarted { turn: 2, prompt: "second".into() }, AppEvent::TurnDone]);
    key(&mut s, KeyCode::Tab);
    key(&mut s, KeyCode::Up);
    key(&mut s, KeyCode::Up);
    let text = picture(&s, (80, 24));
    assert!(text.contains("▸ turn 1") && text.contains("rcpt 7c1e ✓ consumed"), "{text}");
    key(&mut s, KeyCode::Enter);
    assert!(picture(&s, (80, 24)).contains("A receipt is valid for 60 s"));
    key(&mut s, KeyCode::Esc);
    let answer = Effect::Copy(crate::scripts::ANSWER.into());
    assert_eq!(key(&mut s, KeyCode::Char('y')), [answer]);
}

#[test]
fn slash_commands_open_what_they_name_and_nothing_else_is_swallowed() {
    let mut s = state();
    type_text(&mut s, "/rece");
    key(&mut s, KeyCode::Tab);
    assert_eq!(s.draft(), "/receipts");
    assert_eq!(key(&mut s, KeyCode::Enter).first(), Some(&Effect::LoadReceipts));
    key(&mut s, KeyCode::Esc);
    type_text(&mut s, "/etc");
    assert_eq!(key(&mut s, KeyCode::Enter), []);
    assert_eq!(s.draft(), "/etc");
    type_text(&mut s, "/hosts what is it?");
    assert_eq!(
        key(&mut s, KeyCode::Enter).first(),
        Some(&Effect::Send { prompt: "/etc/hosts what is it?".into() })
    );
}

#[test]
fn a_running_turn_keeps_the_next_text_in_the_composer() {
    let mut s = state();
    send(&mut s, "one");
    type_text(&mut s, "two");
    assert_eq!(key(&mut s, KeyCode::Enter), []);
    assert_eq!(s.draft(), "two");
}

#[test]
fn f2_moves_from_wide_to_strip_to_narrow_where_there_is_room() {
    let mut s = new((120, 36), Theme::default());
    answered(&mut s, 1);
    let side = |s: &State| picture(s, (120, 36)).contains('│');
    assert!(side(&s));
    key(&mut s, KeyCode::F(2));
    assert!(!side(&s) && picture(&s, (120, 36)).contains(" recall  3 items"));
    key(&mut s, KeyCode::F(2));
    assert!(side(&s));
}

#[test]
fn a_candidate_is_confirmed_by_the_persons_key() {
    let mut s = script("files", (80, 24), Theme::default());
    assert_eq!(key(&mut s, KeyCode::Char('c')), []);
    key(&mut s, KeyCode::End);
    assert_eq!(key(&mut s, KeyCode::Char('c')), [Effect::ConfirmRemember("c1".into())]);
}

#[test]
fn the_caret_is_the_terminals_own() {
    use ratatui::{Terminal, backend::TestBackend, layout::Position};
    let mut s = state();
    type_text(&mut s, "日本語");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|f| agentspine_tui::view(&s, f)).unwrap();
    assert_eq!(terminal.get_cursor_position().unwrap(), Position::new(8, 19));
}

#[test]
fn a_text_that_shrinks_is_shown_from_its_first_line() {
    let mut s = state();
    paste(&mut s, &(0..12).fold(String::new(), |all, n| all + &format!("row {n}\n")));
    picture(&s, (80, 24));
    for _ in 0..55 {
        key(&mut s, KeyCode::Backspace);
        picture(&s, (80, 24));
    }
    assert!(picture(&s, (80, 24)).contains("› row 0\n  row 1\n"), "{}", picture(&s, (80, 24)));
}

#[test]
fn a_text_given_back_is_shown_from_its_first_line() {
    let mut s = state();
    app(&mut s, vec![AppEvent::Draft("one\ntwo\nthree".into())]);
    assert!(picture(&s, (80, 24)).contains("› one\n  two\n  three\n"));
}

#[test]
fn a_remark_behind_a_failed_call_does_not_hide_it_from_r() {
    let mut s = script("too-many", (80, 24), Theme::default());
    app(&mut s, vec![AppEvent::Notice { level: agentspine_tui::Level::Info, text: "note".into() }]);
    assert_eq!(key(&mut s, KeyCode::Char('r')), [Effect::Retry { turn: 1 }]);
}

#[test]
fn a_continuation_and_usage_change_no_draft() {
    let mut s = state();
    type_text(&mut s, "draft");
    app(
        &mut s,
        vec![AppEvent::Preflight(preflight(1)), AppEvent::Usage(Usage::default()), AppEvent::TurnDone],
    );
    assert_eq!(s.draft(), "draft");
}

#[test]
fn compact_and_fork_wait_for_the_running_turn_and_a_prompt_waits_for_the_summary() {
    let mut s = script("answer", (80, 24), Theme::default());
    type_text(&mut s, "/compact");
    assert_eq!(key(&mut s, KeyCode::Enter).first(), Some(&Effect::Compact));
    assert!(s.is_running());
    type_text(&mut s, "/fork");
    assert!(!key(&mut s, KeyCode::Enter).contains(&Effect::Fork));
    assert_eq!(s.draft(), "/fork");
    let done = || AppEvent::CompactionDone { level: Level::Good, line: "done".into(), summary: "x".into() };
    update(&mut s, done().into());
    assert!(!s.is_running());
    assert_eq!(key(&mut s, KeyCode::Enter).first(), Some(&Effect::Fork));

    // The window fills up: the prompt that was sent goes on after the summary.
    type_text(&mut s, "hello");
    key(&mut s, KeyCode::Enter);
    update(&mut s, AppEvent::CompactionStarted { line: "full".into() }.into());
    update(&mut s, done().into());
    assert!(s.is_running());
    update(&mut s, AppEvent::Interrupted.into());
    assert_eq!((s.is_running(), s.draft()), (false, "hello".to_owned()));
}

#[test]
fn a_session_is_chosen_by_its_number_or_by_moving() {
    let mut s = script("sessions", (80, 24), Theme::default());
    key(&mut s, KeyCode::Char('2'));
    assert_eq!(key(&mut s, KeyCode::Enter), [Effect::ChooseSession(1)]);
}
