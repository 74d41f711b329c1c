//! What a prompt recalls, and what it does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use support::{House, id, memory, scope};

const NOTHING: [&str; 0] = [];

/// A house with a few memories about different things.
fn furnished() -> House {
    let mut house = House::new();
    for (title, summary) in [
        ("receipt validity", "Receipts expire after 60 seconds of boot time."),
        ("package manager", "We use pnpm, never npm, because of the workspace protocol."),
        ("Deployment", "Der Server wird freitags nicht neu gestartet, Quittungen bleiben gültig."),
        ("parse_config", "parse_config in HttpClient returns an error for unknown keys."),
        ("database", "Postgres 16 runs on port 5433 in staging."),
        ("会议", "团队会议每周三下午在北京办公室举行"),
        ("colours", "The status line is amber when a provider failed."),
    ] {
        house.remember(title, summary);
    }
    house
}

#[test]
fn a_question_recalls_the_memory_that_answers_it_and_says_why() {
    let house = furnished();
    let recalled = house.recalled("When does a receipt expire?");
    assert_eq!(recalled.len(), 1);
    assert_eq!(recalled[0].entry.title, "receipt validity");
    assert_eq!(recalled[0].why, "matches: receipt, expire");
    assert!((0.0..=1.0).contains(&recalled[0].confidence));
}

#[test]
fn an_unrelated_prompt_recalls_nothing() {
    let house = furnished();
    for prompt in [
        "write a haiku about autumn leaves",
        "please fix the failing test in the date module and run the linter again",
        "was ist die Hauptstadt von Frankreich?",
        "the of and is it",
        "und der die das ist nicht",
        "",
        " \n\t ",
        "???!!!",
        "🙂🙂🙂",
        "今天天气怎么样",
    ] {
        assert_eq!(house.recall(prompt), NOTHING, "{prompt}");
    }
}

#[test]
fn one_common_word_of_a_long_question_is_no_match() {
    let house = furnished();
    assert_eq!(
        house.recall("can you explain how a browser lays out a line of flowing text in columns?"),
        NOTHING
    );
}

#[test]
fn inflected_words_match_in_english_and_german() {
    let house = furnished();
    assert_eq!(house.recall("expiring receipts"), ["receipt validity"]);
    assert_eq!(house.recall("Wann bleibt die Quittung des Servers gültig?"), ["Deployment"]);
    assert_eq!(house.recall("QUITTUNG GULTIG"), ["Deployment"]);
}

#[test]
fn identifiers_match_whole_and_in_parts() {
    let house = furnished();
    for prompt in
        ["parse_config", "what does parseConfig do", "config parsing", "http client errors", "HttpClient"]
    {
        assert_eq!(house.recall(prompt), ["parse_config"], "{prompt}");
    }
}

#[test]
fn chinese_words_match_without_spaces_and_beside_many_latin_words() {
    let house = furnished();
    assert_eq!(house.recall("团队会议在哪里"), ["会议"]);
    let prompt =
        "kindly summarise recent chatter, arrange everybody's calendars, mention 北京办公室 团队会议";
    assert_eq!(house.recall(prompt), ["会议"]);
}

#[test]
fn invisible_characters_and_accents_hide_no_word() {
    let house = furnished();
    assert_eq!(house.recall("re\u{200b}ceipt ex\u{ad}pire"), ["receipt validity"]);
    assert_eq!(house.recall("Quittungen gu\u{308}ltig"), ["Deployment"]);
    assert_eq!(house.recall("ｒｅｃｅｉｐｔ ｅｘｐｉｒｅ"), ["receipt validity"]);
}

#[test]
fn the_oldest_of_many_memories_is_found() {
    let mut house = House::new();
    house.remember("anchor", "The anchor file has two fixed slots.");
    for n in 0..1000 {
        house.remember(&format!("note {n}"), &format!("Window {n} was painted in colour {}.", n * 7));
    }
    assert_eq!(house.recall("how many slots does the anchor file have?"), ["anchor"]);
    let found = house.ledger.search(&scope(), "window", 10).unwrap();
    assert_eq!(
        (found.entries.len(), found.scanned, found.total_in_scope, found.truncated),
        (10, 1001, 1001, true)
    );
}

#[test]
fn query_syntax_in_a_prompt_is_only_words() {
    let house = furnished();
    let thousand = "alpha OR ".repeat(1000);
    for prompt in [
        "\"",
        "\"\"\"",
        "*",
        "receipt*",
        "NEAR(receipt expire, 2)",
        "title:receipt",
        "- receipt",
        "^receipt",
        "a AND NOT b",
        "{title body}: receipt",
        "receipt + expire",
        "receipt) OR (1=1",
        "'; DROP TABLE memory_record; --",
        "%_%",
        "\0",
        "receipt\0expire",
        "((((((",
        "NOT",
        "OR OR OR",
        "memory_fts",
        "rowid:1",
        &thousand,
        &"(a+)+$".repeat(500),
    ] {
        house.ledger.recall(&scope(), prompt, 5).unwrap();
        house.ledger.search(&scope(), prompt, 25).unwrap();
    }
    assert_eq!(house.recall("receipt) OR (expire*"), ["receipt validity"]);
    assert_eq!(house.recall("body:expire NOT receipt"), ["receipt validity"]);
    assert_eq!(house.recall("NOT NEAR AND OR"), NOTHING);
}

#[test]
fn a_question_after_much_pasted_text_is_still_understood() {
    let house = furnished();
    let log = "2026-11-30T12:00:00Z INFO worker tick\n".repeat(5000);
    assert_eq!(
        house.recall(&format!("{log}\nWhen do receipts expire?")).first().unwrap(),
        "receipt validity"
    );
    assert_eq!(
        house.recall(&format!("When do receipts expire?\n{log}")).first().unwrap(),
        "receipt validity"
    );
}

#[test]
fn near_duplicates_do_not_crowd_out_the_rest() {
    let mut house = House::new();
    for n in 0..50 {
        house.remember(
            "proxy port",
            &format!("The proxy port is 8080, as agreed in the meeting. {}", ".".repeat(n)),
        );
    }
    house.remember("proxy owner", "The proxy port is opened by the systemd socket of Dana.");
    assert_eq!(house.recall("proxy port"), ["proxy port", "proxy owner"]);
}

#[test]
fn recency_only_breaks_ties_and_a_date_in_the_future_wins_nothing_else() {
    let mut house = House::new();
    for (title, summary, at) in [
        ("old", "The queue is drained by cron.", 1),
        ("new", "The queue is drained by systemd.", 2),
        ("future", "The parser was rewritten. A queue is mentioned once in it, far from anything.", i64::MAX),
    ] {
        let mut memory = memory(title, summary);
        memory.created_at_ms = at;
        house.ledger.remember(&memory, &scope()).unwrap();
    }
    assert_eq!(house.recall("queue drained")[..2], ["new", "old"]);
}

#[test]
fn a_memory_stuffed_with_words_does_not_win_against_the_answer() {
    let mut house = furnished();
    let stuffed = "receipt database port config server meeting provider status colour ".repeat(50);
    house.remember("stuffed", &stuffed);
    for (prompt, title) in [
        ("when does a receipt expire", "receipt validity"),
        ("which port does the staging database use", "database"),
    ] {
        assert_eq!(house.recall(prompt).first().unwrap(), title);
    }
}

#[test]
fn the_same_question_gives_the_same_answer_whatever_the_order_of_writing() {
    let texts = ["alpha release train", "beta release train", "gamma release train", "delta release train"];
    let titles = |order: &mut dyn Iterator<Item = &&str>| {
        let mut house = House::new();
        for text in order {
            let mut memory = memory("release", text);
            memory.origin.from_seq = text.len() as u64;
            memory.origin.range_key = (*text).to_owned();
            memory.origin.through_seq = memory.origin.from_seq;
            house.ledger.remember(&memory, &scope()).unwrap();
        }
        let recalled = house.recalled("release train");
        recalled.into_iter().map(|recalled| recalled.entry.summary).collect::<Vec<_>>()
    };
    assert_eq!(titles(&mut texts.iter()), titles(&mut texts.iter().rev()));
}

#[test]
fn tags_are_searched_and_ids_are_wire_ids() {
    let mut house = House::new();
    let mut tagged = memory("retry", "Three attempts at most.");
    tagged.tags = vec!["networking".to_owned(), "kubernetes".to_owned()];
    house.ledger.remember(&tagged, &scope()).unwrap();
    let recalled = house.recalled("kubernetes networking");
    assert_eq!(recalled[0].entry.source, id("session:1"));
    assert!(recalled[0].entry.memory_id.as_str().starts_with("memory:"));
}
