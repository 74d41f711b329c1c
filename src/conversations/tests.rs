//! Promises of the session store.

use std::os::unix::fs::PermissionsExt as _;

use agentspine_gate::Digest;
use agentspine_gate::span::Place;
use serde_json::json;

use super::*;

struct Store {
    dir: tempfile::TempDir,
    conversations: Conversations,
}

impl Store {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let conversations = Conversations::open(&dir.path().join("conversations.sqlite")).unwrap();
        Self { dir, conversations }
    }

    fn with_session(name: &str) -> (Self, Id) {
        let mut store = Self::new();
        let id = Id::new(name).unwrap();
        store.conversations.start_session(&session(name, "project:a", 1000)).unwrap();
        (store, id)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("conversations.sqlite")
    }

    fn raw(&self, sql: &str) -> rusqlite::Result<usize> {
        let raw = Connection::open(self.path()).unwrap();
        raw.pragma_update(None, "recursive_triggers", true).unwrap();
        raw.execute(sql, [])
    }
}

fn session(name: &str, project: &str, at: i64) -> NewSession {
    NewSession {
        id: Id::new(name).unwrap(),
        created_at: at,
        project_id: Id::new(project).unwrap(),
        cwd: PathBuf::from("/src/a"),
        host: Host::Agentspine,
        instruction_host: InstructionHost::Claude,
    }
}

fn event(kind: EventKind, at: i64, text: &str) -> NewEvent {
    NewEvent { kind, at, body: json!({ "text": text }) }
}

fn span(text: &str, receipt: u8) -> Span {
    Span {
        place: Place(Digest::of(text.as_bytes())),
        receipt: ReceiptId([receipt; 16]),
        text: text.to_owned(),
    }
}

#[test]
fn what_was_appended_is_read_back_in_order_after_a_restart() {
    let (mut store, id) = Store::with_session("s-1");
    let first = [event(EventKind::Prompt, 1, "hello"), event(EventKind::Other("later".into()), 2, "x")];
    assert_eq!(store.conversations.append(&id, &first, &[span("brief", 1)]).unwrap(), 2);
    assert_eq!(
        store.conversations.append(&id, &[event(EventKind::Assistant, 3, "hi")], &[span("more", 2)]).unwrap(),
        3
    );
    let again = Conversations::open(&store.path()).unwrap();
    let events = again.events(&id).unwrap();
    let seen: Vec<_> =
        events.iter().map(|e| (e.seq, e.kind.as_str(), e.at, e.body["text"].as_str().unwrap())).collect();
    assert_eq!(seen, [(1, "prompt", 1, "hello"), (2, "later", 2, "x"), (3, "assistant", 3, "hi")]);
    assert_eq!(again.spans(&id).unwrap(), [span("brief", 1), span("more", 2)]);
}

#[test]
fn a_store_that_many_make_at_once_is_made_once() {
    for _ in 0..60 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("conversations.sqlite");
        std::thread::scope(|scope| {
            let opens: Vec<_> =
                (0..8).map(|_| scope.spawn(|| Conversations::open(&path).map(drop))).collect();
            for open in opens {
                open.join().unwrap().unwrap();
            }
        });
    }
}

#[test]
fn an_append_is_all_or_nothing() {
    let (mut store, id) = Store::with_session("s-1");
    let large = event(EventKind::Prompt, 2, &"x".repeat(EVENT_BYTES_MAX));
    let refused =
        store.conversations.append(&id, &[event(EventKind::Prompt, 1, "a"), large], &[span("brief", 1)]);
    assert!(matches!(refused, Err(ConversationsError::TooLarge { what: "event", .. })));
    assert!(store.conversations.events(&id).unwrap().is_empty());
    assert!(store.conversations.spans(&id).unwrap().is_empty());
}

#[test]
fn the_span_of_a_later_call_takes_the_place_of_an_unanswered_one() {
    let (mut store, id) = Store::with_session("s-1");
    store.conversations.append(&id, &[event(EventKind::Prompt, 1, "a")], &[span("brief", 1)]).unwrap();
    store.conversations.append(&id, &[event(EventKind::Prompt, 2, "a")], &[span("brief", 2)]).unwrap();
    assert_eq!(store.conversations.spans(&id).unwrap(), [span("brief", 2)]);
}

#[test]
fn an_unknown_session_takes_no_event() {
    let mut store = Store::new();
    let id = Id::new("s-none").unwrap();
    let refused = store.conversations.append(&id, &[event(EventKind::Prompt, 1, "a")], &[]);
    assert!(matches!(refused, Err(ConversationsError::UnknownSession(_))));
    assert!(matches!(store.conversations.events(&id), Err(ConversationsError::UnknownSession(_))));
}

#[test]
fn the_schema_itself_refuses_to_change_replace_skip_or_delete_an_event() {
    let (mut store, id) = Store::with_session("s-1");
    store
        .conversations
        .append(&id, &[event(EventKind::Prompt, 1, "a"), event(EventKind::Assistant, 2, "b")], &[])
        .unwrap();
    for sql in [
        "UPDATE event SET body = '{}' WHERE seq = 1",
        "DELETE FROM event WHERE seq = 2",
        "INSERT OR REPLACE INTO event VALUES ('s-1', 2, 'prompt', 1, '{}')",
        "INSERT OR IGNORE INTO event VALUES ('s-1', 1, 'prompt', 1, '{}')",
        "INSERT INTO event VALUES ('s-1', 4, 'prompt', 1, '{}')",
        "INSERT OR REPLACE INTO session(id, created_at, project_id, cwd, host, instruction_host) \
         VALUES ('s-1', 1, 'p', '/', 'agentspine', 'claude')",
        "UPDATE session SET project_id = 'project:b'",
        "UPDATE span SET text = ''",
    ] {
        let changed = store.raw(sql).unwrap_or(0);
        assert_eq!(changed, 0, "{sql}");
    }
    assert_eq!(store.conversations.events(&id).unwrap().len(), 2);
}

#[test]
fn two_processes_append_to_one_session_without_a_gap() {
    let (mut store, id) = Store::with_session("s-1");
    let path = store.path();
    let other = id.clone();
    let thread = std::thread::spawn(move || {
        let mut mine = Conversations::open(&path).unwrap();
        for n in 0..50 {
            mine.append(&other, &[event(EventKind::Prompt, n, "theirs")], &[]).unwrap();
        }
    });
    for n in 0..50 {
        store.conversations.append(&id, &[event(EventKind::Prompt, n, "ours")], &[]).unwrap();
    }
    thread.join().unwrap();
    let seqs: Vec<u64> = store.conversations.events(&id).unwrap().iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=100).collect::<Vec<u64>>());
}

#[test]
fn the_file_and_its_companions_are_private() {
    let (mut store, id) = Store::with_session("s-1");
    store.conversations.append(&id, &[event(EventKind::Prompt, 1, "a")], &[]).unwrap();
    for entry in std::fs::read_dir(store.dir.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
}

#[test]
fn a_newer_schema_and_a_foreign_file_are_refused_and_left_alone() {
    let (store, _) = Store::with_session("s-1");
    store.raw("PRAGMA user_version = 99").unwrap();
    let newer = Conversations::open(&store.path()).err();
    assert!(matches!(newer, Some(ConversationsError::Newer { found: 99, known: 2 })));
    store.raw("PRAGMA application_id = 7").unwrap();
    assert!(matches!(Conversations::open(&store.path()).err(), Some(ConversationsError::Foreign)));
    let garbage = store.dir.path().join("garbage.sqlite");
    std::fs::write(&garbage, [b'x'; 4096]).unwrap();
    assert!(matches!(Conversations::open(&garbage).err(), Some(ConversationsError::Sqlite(26))));
    assert_eq!(std::fs::read(&garbage).unwrap(), [b'x'; 4096]);
}

#[test]
fn a_link_in_place_of_the_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("target"), "").unwrap();
    std::os::unix::fs::symlink(dir.path().join("target"), dir.path().join("c.sqlite")).unwrap();
    assert!(Conversations::open(&dir.path().join("c.sqlite")).is_err());
}

#[test]
fn sessions_are_listed_by_their_last_use_and_the_last_one_is_of_its_project() {
    let mut store = Store::new();
    for (name, project, at) in
        [("s-old", "project:a", 10), ("s-new", "project:b", 20), ("s-empty", "project:a", 30)]
    {
        store.conversations.start_session(&session(name, project, at)).unwrap();
    }
    let old = Id::new("s-old").unwrap();
    store.conversations.append(&old, &[event(EventKind::Prompt, 40, "a")], &[]).unwrap();
    store.raw("UPDATE session SET title = 'A title' WHERE id = 's-old'").unwrap();
    let listed = store.conversations.sessions(10).unwrap();
    let seen: Vec<_> = listed.iter().map(|s| (s.id.as_str(), s.last_at, s.events)).collect();
    assert_eq!(seen, [("s-old", 40, 1), ("s-empty", 30, 0), ("s-new", 20, 0)]);
    assert_eq!(store.conversations.sessions(1).unwrap().len(), 1);
    let last = store.conversations.last_session(&Id::new("project:a").unwrap()).unwrap().unwrap();
    assert_eq!((last.id.as_str(), last.title.as_deref()), ("s-old", Some("A title")));
    assert_eq!(store.conversations.last_session(&Id::new("project:b").unwrap()).unwrap(), None);
}

#[test]
fn a_deleted_session_leaves_no_text_in_any_file() {
    let (mut store, id) = Store::with_session("s-1");
    store
        .conversations
        .append(&id, &[event(EventKind::Prompt, 1, "canary-event")], &[span("canary-span", 1)])
        .unwrap();
    store.conversations.save_draft(&id, "canary-draft").unwrap();
    assert!(store.conversations.delete_session(&id).unwrap());
    assert!(!store.conversations.delete_session(&id).unwrap());
    assert_eq!(store.conversations.session(&id).unwrap(), None);
    for entry in std::fs::read_dir(store.dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"canary"));
    }
}

#[test]
fn spans_of_a_receipt_are_found_and_erased_at_once() {
    let (mut store, id) = Store::with_session("s-1");
    store
        .conversations
        .append(&id, &[event(EventKind::Prompt, 1, "a")], &[span("x", 1), span("y", 2)])
        .unwrap();
    let gone = [ReceiptId([1; 16]), ReceiptId([9; 16])];
    assert_eq!(store.conversations.sessions_holding(&gone).unwrap(), std::slice::from_ref(&id));
    assert_eq!(store.conversations.erase_spans(&gone).unwrap(), 1);
    assert_eq!(store.conversations.spans(&id).unwrap(), [span("y", 2)]);
}

#[test]
fn a_draft_is_kept_until_it_is_empty() {
    let mut store = Store::new();
    let id = Id::new("new").unwrap();
    assert_eq!(store.conversations.load_draft(&id).unwrap(), None);
    store.conversations.save_draft(&id, "half a\nthought").unwrap();
    store.conversations.save_draft(&id, "a whole thought").unwrap();
    assert_eq!(store.conversations.load_draft(&id).unwrap().as_deref(), Some("a whole thought"));
    store.conversations.save_draft(&id, "").unwrap();
    assert_eq!(store.conversations.load_draft(&id).unwrap(), None);
}

#[test]
fn limits_refuse_before_anything_is_written() {
    let (mut store, id) = Store::with_session("s-1");
    let huge = "x".repeat(DRAFT_BYTES_MAX + 1);
    assert!(matches!(store.conversations.save_draft(&id, &huge), Err(ConversationsError::TooLarge { .. })));
    let huge = "x".repeat(EVENT_BYTES_MAX);
    let refused = store.conversations.append(&id, &[event(EventKind::Prompt, 1, &huge)], &[]);
    assert!(matches!(refused, Err(ConversationsError::TooLarge { .. })));
    assert!(store.conversations.events(&id).unwrap().is_empty());
}

#[test]
fn spans_of_other_programs_go_when_they_were_not_used_and_those_of_our_chats_stay() {
    let (mut store, ours) = Store::with_session("s-1");
    let theirs = Id::new("s-2").unwrap();
    let claude = NewSession { host: Host::Claude, ..session("s-2", "project:a", 1000) };
    store.conversations.start_session(&claude).unwrap();
    for id in [&ours, &theirs] {
        store.conversations.append(id, &[event(EventKind::Call, 1000, "a")], &[span("brief", 1)]).unwrap();
    }
    let used = 1000 + SPAN_UNUSED_MS_MAX;
    store.conversations.append(&theirs, &[event(EventKind::Call, used, "b")], &[]).unwrap();
    assert_eq!(store.conversations.expire_spans(used).unwrap(), 0);
    assert_eq!(store.conversations.expire_spans(used + 1).unwrap(), 1);
    assert_eq!(store.conversations.spans(&theirs).unwrap(), []);
    assert_eq!(store.conversations.spans(&ours).unwrap(), [span("brief", 1)]);
}

#[test]
fn the_last_session_of_a_project_is_a_chat() {
    let (mut store, ours) = Store::with_session("s-1");
    let claude = NewSession { host: Host::Claude, ..session("s-2", "project:a", 1000) };
    store.conversations.start_session(&claude).unwrap();
    store.conversations.append(&ours, &[event(EventKind::Prompt, 2000, "a")], &[]).unwrap();
    store.conversations.append(&claude.id, &[event(EventKind::Call, 3000, "b")], &[]).unwrap();
    let project = Id::new("project:a").unwrap();
    assert_eq!(store.conversations.last_session(&project).unwrap().unwrap().id, ours);
}

#[test]
fn a_fork_is_looked_for_among_the_same_directorys_clients_and_files_only() {
    let (mut store, _) = Store::with_session("s-1");
    let claude = |name: &str| NewSession { host: Host::Claude, ..session(name, "project:a", 1000) };
    let others = [
        NewSession { cwd: PathBuf::from("/src/b"), ..claude("s-dir") },
        NewSession { host: Host::Generic, ..claude("s-host") },
        NewSession { instruction_host: InstructionHost::Codex, ..claude("s-files") },
    ];
    for new in [claude("s-origin"), claude("s-fork")].into_iter().chain(others) {
        store.conversations.start_session(&new).unwrap();
        store.conversations.append(&new.id, &[event(EventKind::Call, 1, "a")], &[span("brief", 1)]).unwrap();
    }
    store.conversations.start_session(&claude("s-empty")).unwrap();
    let hosts = (Host::Claude, InstructionHost::Claude);
    let fork = Id::new("s-fork").unwrap();
    let found = store.conversations.forkable(Path::new("/src/a"), hosts, &fork, 32).unwrap();
    assert_eq!(found, [Id::new("s-origin").unwrap()]);
}

#[test]
fn a_file_of_the_first_schema_keeps_its_sessions_and_takes_forks_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("conversations.sqlite");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(schema::V1).unwrap();
    old.pragma_update(None, "application_id", schema::APPLICATION_ID).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    old.execute_batch(
        "INSERT INTO session VALUES ('s-1', 5, 'project:a', '/src/a', 'agentspine', 'claude', 'Old');
         INSERT INTO event VALUES ('s-1', 1, 'prompt', 6, '{\"text\":\"hello\"}');
         INSERT INTO event VALUES ('s-1', 2, 'turn-end', 7, '{}');",
    )
    .unwrap();
    drop(old);
    let mut store = Conversations::open(&path).unwrap();
    let id = Id::new("s-1").unwrap();
    let session = store.session(&id).unwrap().unwrap();
    assert_eq!((session.title.as_deref(), session.parent, session.seed_length), (Some("Old"), None, 0));
    assert_eq!(store.events(&id).unwrap().len(), 2);
    let fork = Fork { parent: id.clone(), child: Id::new("s-2").unwrap(), at: None, now: 9 };
    let child = store.fork_session(&fork).unwrap();
    assert_eq!(
        (child.parent, child.seed_length, child.root, child.last_at),
        (Some(id.clone()), 2, Some(id), 9)
    );
}

#[test]
fn a_fork_takes_the_injected_text_of_its_seed_along_and_nothing_later() {
    let (mut store, id) = Store::with_session("s-1");
    let said = |receipt: u8| NewEvent {
        kind: EventKind::Prompt,
        at: 1,
        body: json!({ "receipt": ReceiptId([receipt; 16]), "text": "x" }),
    };
    let end = || event(EventKind::TurnEnd, 2, "");
    store.conversations.append(&id, &[said(1), end()], &[span("one", 1)]).unwrap();
    store.conversations.append(&id, &[said(2), end()], &[span("two", 2)]).unwrap();
    let fork = |child: &str, at| Fork { parent: id.clone(), child: Id::new(child).unwrap(), at, now: 9 };
    let early = store.conversations.fork_session(&fork("s-2", Some(3))).unwrap();
    assert_eq!(store.conversations.spans(&early.id).unwrap(), [span("one", 1)]);
    let late = store.conversations.fork_session(&fork("s-3", None)).unwrap();
    assert_eq!(store.conversations.spans(&late.id).unwrap(), [span("one", 1), span("two", 2)]);
    assert_eq!(store.conversations.events(&late.id).unwrap(), store.conversations.events(&id).unwrap());
    let none = store.conversations.fork_session(&fork("s-4", Some(1)));
    assert!(matches!(none, Err(ConversationsError::NothingEnded(_))));
    assert_eq!(store.conversations.session(&Id::new("s-4").unwrap()).unwrap(), None);
}

#[test]
fn a_redacted_session_takes_no_event_and_cannot_be_unredacted() {
    let (mut store, id) = Store::with_session("s-1");
    store.conversations.append(&id, &[event(EventKind::Prompt, 1, "canary")], &[span("canary", 1)]).unwrap();
    let done = store.conversations.redact(&id, 5).unwrap();
    assert_eq!((done.events, done.log), (1, LogFile::Emptied));
    assert!(store.conversations.append(&id, &[event(EventKind::Prompt, 2, "b")], &[]).is_err());
    assert_eq!(store.raw("UPDATE session SET redacted_at = NULL").unwrap_or(0), 0);
    assert_eq!(store.raw("UPDATE event SET kind = 'assistant'").unwrap_or(0), 0);
    let events = store.conversations.events(&id).unwrap();
    assert_eq!(
        (events[0].at, &events[0].body["redacted"], &events[0].body["text"]),
        (1, &json!(true), &json!(null))
    );
}

#[test]
fn a_reader_of_the_log_keeps_a_redaction_from_being_called_complete() {
    let (mut store, id) = Store::with_session("s-1");
    store.conversations.append(&id, &[event(EventKind::Prompt, 1, "canary")], &[]).unwrap();
    store.conversations.0.busy_timeout(std::time::Duration::ZERO).unwrap();
    let reader = Connection::open(store.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM event").unwrap();
    assert_eq!(store.conversations.redact(&id, 5).unwrap().log, LogFile::InUse);
    drop(reader);
    assert_eq!(store.conversations.redact(&id, 6).unwrap().log, LogFile::Emptied);
}

#[test]
fn a_summary_is_made_from_what_followed_the_last_one() {
    let (mut store, id) = Store::with_session("s-1");
    let next = |store: &Store| store.conversations.unsummarised(&id).unwrap();
    assert_eq!(next(&store), None);
    store.conversations.append(&id, &[event(EventKind::Prompt, 1, "a")], &[]).unwrap();
    assert_eq!(next(&store), None, "nothing was answered");
    let more = [event(EventKind::Assistant, 2, "b"), event(EventKind::TurnEnd, 3, "")];
    store.conversations.append(&id, &more, &[]).unwrap();
    assert_eq!(next(&store), Some(Range { from_seq: 1, through_seq: 3 }));
    store.conversations.append(&id, &[event(EventKind::CompactionSummary, 4, "c")], &[]).unwrap();
    assert_eq!(next(&store), None);
    store.conversations.append(&id, &[event(EventKind::Assistant, 5, "d")], &[]).unwrap();
    assert_eq!(next(&store), Some(Range { from_seq: 5, through_seq: 5 }));
}

#[test]
fn what_several_calls_keep_is_kept_together_and_what_cannot_be_kept_fails_alone() {
    let (mut store, a) = Store::with_session("a");
    let (b, unknown) = (Id::new("b").unwrap(), Id::new("unknown").unwrap());
    store.conversations.start_session(&session("b", "project:a", 1000)).unwrap();
    let injected = span("injected", 1);
    let kept = |session, span| Kept { session, event: event(EventKind::Call, 2000, "x"), span };
    let both = [kept(&a, Some(&injected)), kept(&b, None), kept(&a, None)];
    assert!(store.conversations.append_each(&both).iter().all(std::result::Result::is_ok));
    let mixed = [kept(&b, None), kept(&unknown, None), kept(&a, None)];
    let done: Vec<_> = store.conversations.append_each(&mixed).into_iter().map(|done| done.is_ok()).collect();
    assert_eq!(done, [true, false, true]);
    let events = |id| store.conversations.events(id).unwrap().len();
    assert_eq!((events(&a), events(&b)), (3, 2));
    assert_eq!(store.conversations.spans(&a).unwrap(), [injected]);
    assert!(store.conversations.append_each(&[]).is_empty());
}
