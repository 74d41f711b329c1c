//! Scripted states: what the snapshots and the example show.

use agentspine_tui::{
    AppEvent, Blocked, CallKind, Candidate, Event, InstructionRow, Instructions, Level, ModelError,
    Preflight, ProviderRow, ProviderStatus, Recall, RecallItem, ReceiptDetail, ReceiptRow, ReceiptState,
    Setup, State, Theme, Usage, Verdict, update,
};

/// Names of all scripts.
pub(crate) const NAMES: [&str; 16] = [
    "first-run",
    "empty",
    "answer",
    "blocked",
    "receipts",
    "receipt",
    "help",
    "too-many",
    "recall",
    "files",
    "running",
    "server",
    "cut",
    "tools",
    "compacted",
    "sessions",
];

pub(crate) fn new(size: (u16, u16), theme: Theme) -> State {
    State::new(Setup { theme, place: "~/src/spine · main".into(), session: "s-81".into(), size })
}

pub(crate) fn app(state: &mut State, events: Vec<AppEvent>) {
    for event in events {
        update(state, Event::from(event));
    }
}

pub(crate) fn key(state: &mut State, code: crossterm::event::KeyCode) -> Vec<agentspine_tui::Effect> {
    chord(state, code, crossterm::event::KeyModifiers::NONE)
}

pub(crate) fn chord(
    state: &mut State,
    code: crossterm::event::KeyCode,
    modifiers: crossterm::event::KeyModifiers,
) -> Vec<agentspine_tui::Effect> {
    let key = crossterm::event::KeyEvent::new(code, modifiers);
    update(state, Event::Input(crossterm::event::Event::Key(key)))
}

pub(crate) fn named() -> AppEvent {
    AppEvent::ModelNamed {
        label: "demo".into(),
        note: "an embedded stand-in without a network: it shows what a model would be given".into(),
    }
}

fn file(id: &str, bytes: u64, sha: &str, state: &str, level: Level, reason: &str) -> InstructionRow {
    InstructionRow {
        id: id.into(),
        path: format!("~/src/spine/{}", id.rsplit('/').next().unwrap_or(id)),
        bytes,
        sha: sha.into(),
        state: state.into(),
        reason: reason.into(),
        level,
    }
}

pub(crate) fn instructions() -> Instructions {
    Instructions {
        host: "claude".into(),
        rows: vec![
            file("claude:user/CLAUDE.md", 412, "a01b9c22", "injected", Level::Good, ""),
            file("claude:ancestor-1/CLAUDE.md", 96, "77ab02d1", "injected", Level::Good, ""),
            file("claude:project/CLAUDE.md", 3276, "9f2c41aa", "injected", Level::Good, ""),
            file("claude:project/CLAUDE.local.md", 640, "03be7731", "injected", Level::Good, ""),
            file(
                "claude:project/docs/CLAUDE.md",
                220,
                "5d0ce1f0",
                "lazy",
                Level::Info,
                "loads when a file there is read",
            ),
        ],
        used_bytes: 4424,
        standard_bytes: 8192,
        hard_bytes: 16384,
    }
}

fn provider(id: &str, status: ProviderStatus, items: u32, ms: u64, reason: Option<&str>) -> ProviderRow {
    ProviderRow { id: id.into(), status, items, ms, reason: reason.map(Into::into), required: false }
}

pub(crate) fn recall(turn: u64) -> Recall {
    let item = |n, source: &str, provider: &str, why: &str, tokens, text: &str| RecallItem {
        n,
        id: format!("mem:{n}"),
        provider: provider.into(),
        source: source.into(),
        why: why.into(),
        text: text.into(),
        tokens,
    };
    Recall {
        turn,
        ms: 38,
        providers: vec![
            provider("ledger", ProviderStatus::Loaded, 3, 9, None),
            provider("team-notes", ProviderStatus::Empty, 0, 31, None),
            provider("hypatia", ProviderStatus::FailedOptional, 0, 300, Some("timeout")),
        ],
        items: vec![
            item(
                1,
                "session:s-80",
                "ledger",
                "words: receipt, expire",
                41,
                "A receipt is valid for 60 s of boot time; wall-clock steps change nothing.",
            ),
            item(
                2,
                "note:2026-11-02",
                "ledger",
                "words: optional, provider",
                28,
                "Decision: an optional provider that fails only warns; a required one blocks the turn.",
            ),
            item(
                3,
                "note:2026-10-28",
                "ledger",
                "same project, recent",
                19,
                "Anja reviews changes of the journal schema.",
            ),
        ],
        tokens: 88,
        budget_tokens: 2000,
        left_out: 2,
    }
}

pub(crate) fn preflight(turn: u64) -> Preflight {
    Preflight {
        turn,
        kind: CallKind::Turn,
        ms: 12,
        recalled: 3,
        files_ok: 4,
        files: 4,
        receipt: "7c1e".into(),
        state: ReceiptState::Consumed,
        injected_tokens: 812,
    }
}

pub(crate) fn row(short: &str, turn: u64, state: ReceiptState, at: &str, call: &str) -> ReceiptRow {
    ReceiptRow {
        id: format!("{short}0000111122223333444455556666"),
        short: short.into(),
        turn: Some(turn),
        kind: "turn".into(),
        state,
        at: at.into(),
        recall: 3,
        files: "4".into(),
        call: call.into(),
    }
}

pub(crate) const PROMPT: &str = "How do receipts expire, and what blocks a turn?";

pub(crate) const ANSWER: &str = "A receipt is bound to **one** turn. It expires `60 s` after it was issued, or as soon as it is \
consumed:\n\n```rust\nlet prepared = gate.issue(composed, now)?;\nlet consumed = prepared.consume()?;  // in process, once\n```\n\nThree \
things block a turn:\n\n- an instruction file changes between issue and consume [1]\n- a required provider fails; \
optional ones *only warn* [2]\n- the receipt is expired or bound to another turn\n\n| state | sign |\n|---|---|\n| consumed | ✓ |\n| \
void | ∅ |\n";

pub(crate) fn answered(state: &mut State, turn: u64) {
    app(
        state,
        vec![
            AppEvent::TurnStarted { turn, prompt: PROMPT.into() },
            AppEvent::Instructions(instructions()),
            AppEvent::Recall(recall(turn)),
            AppEvent::Preflight(preflight(turn)),
            AppEvent::Receipt(row("7c1e", turn, ReceiptState::Consumed, "16:21:07", "demo 200 1.9 s")),
            AppEvent::Delta(ANSWER.into()),
            AppEvent::Usage(Usage { input: 1240, output: 412, context_percent: Some(12) }),
            AppEvent::TurnDone,
        ],
    );
}

pub(crate) fn block() -> Blocked {
    Blocked {
        turn: 2,
        code: "provider-failed".into(),
        detail: "timeout".into(),
        message: "The required provider team-notes gave no answer within 5000 ms.".into(),
        advice: "Check it with: agentspine doctor. To make it optional: agentspine preflight-policy --set \
                 providers.team-notes.required=false --confirm-local-policy"
            .into(),
        receipt: Some("91aa".into()),
        ms: 5012,
        draft: "Refactor the provider trait".into(),
    }
}

fn blocked(state: &mut State) {
    answered(state, 1);
    let mut failed = recall(2);
    failed.items.clear();
    failed.tokens = 0;
    failed.left_out = 0;
    failed.providers = vec![
        provider("ledger", ProviderStatus::Loaded, 3, 9, None),
        ProviderRow {
            required: true,
            ..provider("team-notes", ProviderStatus::Failed, 0, 5000, Some("timeout"))
        },
    ];
    app(
        state,
        vec![
            AppEvent::TurnStarted { turn: 2, prompt: "Refactor the provider trait".into() },
            AppEvent::Recall(failed),
            AppEvent::Receipt(row("91aa", 2, ReceiptState::Void, "16:22:40", "not sent")),
            AppEvent::Blocked(block()),
        ],
    );
}

pub(crate) fn detail() -> ReceiptDetail {
    let fields = [
        ("state", "consumed 16:21:07.220, once, in process"),
        ("issued", "16:21:07.208 · valid 60 s of boot time"),
        ("kind", "turn"),
        ("delivery", "s-81:1"),
        ("agent", "host-agent:default"),
        ("user", "local-user"),
        ("tenant", "local-tenant"),
        ("project", "project:4be1c0a5d2e977f80b3a"),
        ("session", "s-81"),
        ("cwd", "sha256 1f0a77c2…"),
        ("prompt", "sha256 2b7e1516… · 48 B"),
        ("request", "sha256 40aa91d3… · 9.1K"),
        ("endpoint", "demo:"),
        ("model", "demo"),
        ("files", "claude:user/CLAUDE.md a01b9c22 injected"),
        ("", "claude:ancestor-1/CLAUDE.md 77ab02d1 injected"),
        ("", "claude:project/CLAUDE.md 9f2c41aa injected"),
        ("", "claude:project/CLAUDE.local.md 03be7731 injected"),
        ("budget", "claude-required-complete · 4424 of 8192 B"),
        ("policy", "revision 3 · profile local sha256 0c9f3a11…"),
        ("remember", "2 entries"),
        ("provider", "ledger loaded 9 ms · 3 injected, 2 left out"),
        ("", "team-notes empty 31 ms"),
        ("", "hypatia failed-optional timeout 300 ms"),
        ("briefing", "sha256 7711d0b4… · 812 tok"),
        ("key", "k1 · seq 41, 42 · anchor 42"),
    ];
    ReceiptDetail {
        id: "7c1e0000111122223333444455556666".into(),
        fields: fields.into_iter().map(|(l, v)| (l.into(), v.into())).collect(),
        verify: Some(Verdict { ok: true, text: "signature, chain and anchor agree (16:21:30)".into() }),
        json: "{\"schema\":\"agentspine.receipt/v1\",\"receiptId\":\"7c1e0000111122223333444455556666\"}"
            .into(),
    }
}

pub(crate) fn list() -> Vec<ReceiptRow> {
    vec![
        row("7c1e", 5, ReceiptState::Consumed, "16:21:07", "demo 200 1.9 s"),
        row("b04d", 4, ReceiptState::Consumed, "16:18:40", "demo 200 2.4 s"),
        row("5e92", 3, ReceiptState::Refused, "16:17:02", "not sent"),
        row("c7f3", 2, ReceiptState::Expired, "16:12:55", "not sent"),
        row("02d8", 1, ReceiptState::OutcomeUnknown, "16:10:31", "unknown"),
    ]
}

fn too_many(state: &mut State) {
    app(
        state,
        vec![
            AppEvent::TurnStarted { turn: 1, prompt: "Summarise the last meeting".into() },
            AppEvent::Instructions(instructions()),
            AppEvent::Recall(recall(1)),
            AppEvent::Preflight(preflight(1)),
            AppEvent::ModelError(ModelError {
                turn: 1,
                message: "openai:gpt-x answered 429: too many requests.".into(),
                retry_after_s: Some(12),
                retryable: true,
            }),
        ],
    );
    update(state, Event::Tick { ms: 3000 });
}

fn tools(state: &mut State) {
    let again = Preflight {
        kind: CallKind::Continuation,
        ms: 3,
        receipt: "8a21".into(),
        injected_tokens: 0,
        ..preflight(1)
    };
    app(state, vec![
        AppEvent::TurnStarted { turn: 1, prompt: "Wer prüft das Schema? 日本語も書いて 👩‍🔬".into() },
        AppEvent::Instructions(instructions()),
        AppEvent::Recall(recall(1)),
        AppEvent::Preflight(preflight(1)),
        AppEvent::Delta("Ich suche danach.\n".into()),
        AppEvent::ToolCall { name: "memory_search".into(), line: "“journal schema review”".into() },
        AppEvent::ToolResult { ok: true, line: "3 memories".into() },
        AppEvent::Preflight(again),
        AppEvent::Delta("Anja prüft Änderungen am Schema [3].\n\n1. 日本語の文章も正しく折り返されます。幅は二桁です。\n2. Emoji 👨‍👩‍👧 zählen zwei".into()),
    ]);
}

fn compacted(state: &mut State) {
    answered(state, 1);
    let line = "the model's context fills up: it summarises what was said";
    let side =
        Preflight { kind: CallKind::Side, ms: 4, receipt: "3506".into(), injected_tokens: 0, ..preflight(1) };
    let summary =
        "The person asked who reviews the schema.\n\n- Anja does, before each change.\n- Open: the index.";
    app(
        state,
        vec![
            AppEvent::CompactionStarted { line: line.into() },
            AppEvent::Preflight(side),
            AppEvent::CompactionProgress { bytes: 900 },
            AppEvent::CompactionDone {
                level: Level::Good,
                line: "compacted: events 1 to 3 are a summary of 15 words from here on".into(),
                summary: summary.into(),
            },
            AppEvent::CompactionStarted { line: line.into() },
            AppEvent::CompactionProgress { bytes: 1400 },
        ],
    );
}

/// A named state at a size.
pub(crate) fn script(name: &str, size: (u16, u16), theme: Theme) -> State {
    use crossterm::event::KeyCode;
    let mut s = new(size, theme);
    app(&mut s, vec![named()]);
    match name {
        "first-run" => app(&mut s, vec![AppEvent::AskInstructionHost]),
        "empty" => app(&mut s, vec![AppEvent::Instructions(instructions())]),
        "answer" => answered(&mut s, 1),
        "blocked" => blocked(&mut s),
        "receipts" | "receipt" => {
            answered(&mut s, 5);
            key(&mut s, KeyCode::F(3));
            app(&mut s, vec![AppEvent::Receipts(list()), AppEvent::ReceiptDetail(detail())]);
            if name == "receipt" {
                key(&mut s, KeyCode::Enter);
            }
        }
        "help" => drop(key(&mut s, KeyCode::F(1))),
        "too-many" => too_many(&mut s),
        "recall" => {
            answered(&mut s, 1);
            key(&mut s, KeyCode::Tab);
            key(&mut s, KeyCode::Enter);
            key(&mut s, KeyCode::Down);
            key(&mut s, KeyCode::Enter);
        }
        "files" => {
            answered(&mut s, 1);
            let text = "Always run the tests of a crate before committing to it.".into();
            app(&mut s, vec![AppEvent::Candidates(vec![Candidate { id: "c1".into(), text }])]);
            key(&mut s, KeyCode::F(4));
        }
        "running" => {
            answered(&mut s, 1);
            app(
                &mut s,
                vec![
                    AppEvent::TurnStarted { turn: 2, prompt: "And then?".into() },
                    AppEvent::PreflightStep { done: 2, total: 4, ms: 120 },
                ],
            );
        }
        "server" => {
            app(&mut s, vec![AppEvent::ServerFound { name: "llama3.2 at 127.0.0.1:11434 (Ollama)".into() }]);
            "hello".chars().for_each(|c| drop(key(&mut s, KeyCode::Char(c))));
            key(&mut s, KeyCode::Enter);
        }
        "cut" => {
            app(
                &mut s,
                vec![
                    AppEvent::TurnStarted { turn: 1, prompt: "Tell me everything".into() },
                    AppEvent::Preflight(preflight(1)),
                    AppEvent::Delta("Everything began when\n\nthe first".into()),
                    AppEvent::Cut { reason: "the server closed the connection after 2.1 s.".into() },
                ],
            );
        }
        "tools" => tools(&mut s),
        "compacted" => compacted(&mut s),
        "sessions" => {
            let choice = |title: &str, id: &str| format!("{title} · 2026-11-30 18:04:12Z · {id}");
            let choices =
                vec![choice("Paint the boiler green and tell me…", "s-81"), choice("Why is it red?", "s-80")];
            app(&mut s, vec![AppEvent::AskSession { choices }]);
        }
        _ => {}
    }
    s
}
