//! What ranking makes of neighbours, subjects, dates, word forms and crowds, and what the index keeps of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use agentspine_memory::{Kind, Ledger, NewMemory, StoreError, Trust, Why};
use rusqlite::Connection;
use support::{House, id, memory, on_disk, scope};

/// A memory derived from the turn `seq` of a session.
fn turn(session: &str, seq: u64, text: &str) -> NewMemory {
    let mut memory = memory(&format!("{session} {seq}"), text);
    memory.trust = Trust::Derived;
    memory.origin.source = id(&format!("session:{session}"));
    (memory.origin.from_seq, memory.origin.through_seq) = (seq, seq);
    memory
}

fn first_of(house: &House, prompt: &str) -> String {
    house.recall(prompt).first().cloned().unwrap_or_default()
}

/// Summaries in the order of their score.
fn ranked(ledger: &Ledger, prompt: &str) -> Vec<String> {
    let ranked = ledger.ranked(&scope(), prompt, 10).unwrap();
    ranked.into_iter().map(|recalled| recalled.entry.summary).collect()
}

/// A small conversation, told in any order.
fn conversation(order: [usize; 4]) -> House {
    let turns = [
        turn("a", 1, "Did you hear back from the landlord about the balcony?"),
        turn("a", 2, "Yes, she wants it painted green before June."),
        turn("a", 3, "Fine by me."),
        turn("b", 1, "Nothing of the kind stands here."),
    ];
    let mut house = House::new();
    for at in order {
        house.ledger.remember(&turns[at], &scope()).unwrap();
    }
    house
}

#[test]
fn an_answer_is_found_by_the_question_that_was_asked_before_it() {
    let house = conversation([0, 1, 2, 3]);
    let found = ranked(&house.ledger, "landlord balcony");
    assert_eq!(found[1], "Yes, she wants it painted green before June.");
    assert_eq!(found.len(), 3, "another session has no part in it");
    let why = &house.ledger.ranked(&scope(), "landlord balcony", 2).unwrap()[1].why;
    assert_eq!(why, "stands beside what matches");
}

#[test]
fn neighbours_follow_the_order_of_the_session_and_not_of_writing() {
    let expected = ranked(&conversation([0, 1, 2, 3]).ledger, "landlord balcony");
    for order in [[2, 1, 0, 3], [1, 3, 0, 2], [3, 2, 1, 0]] {
        assert_eq!(ranked(&conversation(order).ledger, "landlord balcony"), expected);
    }
}

#[test]
fn what_a_person_said_explicitly_has_no_neighbours() {
    let mut house = House::new();
    house.remember("landlord", "The landlord owns the balcony.");
    house.remember("paint", "It is painted green.");
    assert_eq!(house.ledger.ranked(&scope(), "landlord balcony", 10).unwrap().len(), 1);
}

#[test]
fn a_forgotten_turn_is_found_by_no_neighbour_and_its_neighbours_close_up() {
    let mut house = conversation([0, 1, 2, 3]);
    let middle = house.ledger.ranked(&scope(), "painted green", 1).unwrap()[0].entry.memory_id.clone();
    house.ledger.forget(&scope(), &middle, 2).unwrap();
    assert_eq!(ranked(&house.ledger, "painted green"), Vec::<String>::new());
    assert_eq!(ranked(&house.ledger, "landlord balcony")[1], "Fine by me.");
}

#[test]
fn a_forgotten_memory_leaves_no_term_in_the_index_however_old_it_is() {
    let mut house = House::new();
    let secret = house.remember("holiday", "The zanzibarian holiday is in Xylothek.");
    for n in 0..200 {
        house.remember(&format!("note {n}"), &format!("Window {n} was painted."));
    }
    let second = house.remember("holiday again", "The quokkafarm holiday.");
    for memory in [secret, second] {
        house.ledger.forget(&scope(), &memory.memory_id, 2).unwrap();
    }
    for text in ["zanzibarian", "zanzib", "xylothek", "quokkafarm", "kkafarm"] {
        assert!(!on_disk(house.dir.path(), text), "{text}");
    }
    assert_eq!(house.recall("holiday"), [""; 0]);
    assert_eq!(house.recall("painted window 117"), ["note 117"]);
}

#[test]
fn a_posting_that_this_build_would_not_make_is_erased_with_its_memory_all_the_same() {
    let mut house = House::new();
    let old = house.remember("harbour", "The harbour freezes.");
    for n in 0..64 {
        house.remember(&format!("note {n}"), "Window.");
    }
    let raw = Connection::open(house.path()).unwrap();
    let sql = "UPDATE memory_posting SET term = 'oldwayofstemming' WHERE term = 'harbour'";
    assert_eq!(raw.execute(sql, []).unwrap(), 1);
    house.ledger.forget(&scope(), &old.memory_id, 2).unwrap();
    let sql = "SELECT count(*) FROM memory_posting WHERE term = 'oldwayofstemming'";
    assert_eq!(raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn an_index_made_anew_ranks_as_the_one_that_grew() {
    let mut house = conversation([1, 3, 0, 2]);
    for (n, weather) in (0..150).zip(["wind", "rain", "snow"].into_iter().cycle()) {
        let text = format!("Turn {n} speaks of {weather} and the harbour.");
        house.ledger.remember(&turn("c", n, &text), &scope()).unwrap();
    }
    let forgotten = house.ledger.ranked(&scope(), "turn 70", 1).unwrap()[0].entry.memory_id.clone();
    house.ledger.forget(&scope(), &forgotten, 2).unwrap();
    let prompts = ["landlord balcony", "harbour snow", "turn 71 wind"];
    let grown = prompts.map(|prompt| house.ledger.ranked(&scope(), prompt, 10).unwrap());
    let status = house.ledger.status().unwrap();

    let raw = Connection::open(house.path()).unwrap();
    raw.execute("UPDATE memory_index SET words = 0", []).unwrap();
    let ledger = Ledger::open(&house.path()).unwrap();
    assert_eq!(prompts.map(|prompt| ledger.ranked(&scope(), prompt, 10).unwrap()), grown);
    assert_eq!(ledger.status().unwrap(), status);
    let waiting = raw.query_row("SELECT count(*) FROM memory_fresh", [], |row| row.get::<_, i64>(0));
    assert_eq!(waiting.unwrap(), 0);
}

#[test]
fn german_compounds_are_found_by_their_parts_and_parts_by_compounds() {
    let mut house = House::new();
    house.remember("Frist", "Der Quittungsablauf beträgt 60 Sekunden.");
    house.remember("Server", "Jeder Neustart wird angekündigt.");
    house.remember("Kantine", "Freitags gibt es Fisch.");
    assert_eq!(first_of(&house, "Ablauf der Quittung"), "Frist");
    assert_eq!(first_of(&house, "Serverneustart"), "Server");
}

#[test]
fn irregular_and_inflected_verbs_lead_to_the_same_memory() {
    let mut house = House::new();
    house.remember("index", "We chose tantivy and rebuilt it.");
    house.remember("Dienst", "Der Dienst wurde am Sonntag abgeschaltet und die Daten gelöscht.");
    assert_eq!(first_of(&house, "what did we choose to rebuild?"), "index");
    assert_eq!(first_of(&house, "Warum müssen wir den Dienst abschalten?"), "Dienst");
    assert_eq!(first_of(&house, "Daten löschen"), "Dienst");
}

#[test]
fn the_subject_and_the_day_of_a_memory_are_words_of_it() {
    let mut house = House::new();
    // 2023-05-08 and 2024-11-20.
    for (subject, day, title) in
        [("Caroline", 1_683_550_000_000, "spring"), ("Melanie", 1_732_100_000_000, "autumn")]
    {
        let mut memory = memory(title, "Went to the pottery class.");
        memory.subject = Some(subject.to_owned());
        memory.created_at_ms = day;
        house.ledger.remember(&memory, &scope()).unwrap();
    }
    assert_eq!(first_of(&house, "Melanie's pottery"), "autumn");
    assert_eq!(first_of(&house, "Which pottery class was in 2023?"), "spring");
    assert_eq!(first_of(&house, "pottery in November"), "autumn");
    assert_eq!(first_of(&house, "Töpfern, pottery im November"), "autumn");
}

#[test]
fn five_hundred_copies_do_not_hide_the_next_memory_and_say_so() {
    let mut house = House::new();
    for n in 0..500 {
        house.remember(
            "proxy port",
            &format!("The proxy port is 8080, as agreed in the meeting. {}", ".".repeat(n % 40)),
        );
    }
    house.remember("proxy owner", "The proxy port is opened by the systemd socket of Dana.");
    assert_eq!(house.recall("proxy port"), ["proxy port", "proxy owner"]);
    let recall = house.ledger.recall_with_rest(&scope(), "proxy port", 5).unwrap();
    let kept = recall.recalled[0].entry.memory_id.clone();
    assert_eq!(recall.left_out.len(), 16);
    assert!(recall.left_out.iter().all(|left| left.why == Why::SameAs(kept.clone())));
}

#[test]
fn one_session_leaves_places_to_others_and_takes_those_that_nobody_wants() {
    let mut house = House::new();
    let texts = ["alpha harbour", "beta harbour", "gamma harbour", "delta harbour", "epsilon harbour"];
    for (seq, text) in (0..).step_by(10).zip(texts) {
        house.ledger.remember(&turn("loud", seq, text), &scope()).unwrap();
    }
    let quiet =
        "zeta harbour of the quiet session, which says a little more about many other things than they do";
    house.ledger.remember(&turn("quiet", 1, quiet), &scope()).unwrap();
    let recall = house.ledger.recall_with_rest(&scope(), "harbour", 4).unwrap();
    let sources: Vec<_> = recall.recalled.iter().map(|recalled| recalled.entry.source.as_str()).collect();
    assert_eq!(sources.iter().filter(|source| **source == "session:quiet").count(), 1);
    assert_eq!(
        recall.left_out.iter().map(|left| left.why.clone()).collect::<Vec<_>>(),
        [Why::SourceFull, Why::SourceFull]
    );
    assert_eq!(house.ledger.recall(&scope(), "harbour", 6).unwrap().len(), 6);
}

#[test]
fn decisions_do_not_hide_every_preference() {
    let mut house = House::new();
    for n in ["alpha", "beta", "gamma", "delta", "epsilon"] {
        house.remember(n, &format!("harbour {n}"));
    }
    let mut preference =
        memory("wish", "harbour and much more that is not about it but about boats, tea and long walks");
    preference.kind = Kind::Preference;
    house.ledger.remember(&preference, &scope()).unwrap();
    assert!(house.recall("harbour").contains(&"wish".to_owned()));
}

#[test]
fn what_covers_too_little_is_named_as_left_out() {
    let mut house = House::new();
    house.remember("browser", "The browser cache lives for a day.");
    let prompt = "how does a browser lay out flowing text in columns of equal height without any script?";
    let recall = house.ledger.recall_with_rest(&scope(), prompt, 5).unwrap();
    assert!(recall.recalled.is_empty());
    assert_eq!(recall.left_out[0].why, Why::Floor);
}

#[test]
fn an_interrupt_ends_a_read_and_one_before_it_does_nothing() {
    let mut house = House::new();
    for n in 0..300 {
        house.remember(&format!("note {n}"), &format!("Window {n} was painted in colour {}.", n * 7));
    }
    let interrupter = house.ledger.interrupter();
    interrupter.interrupt();
    assert!(house.ledger.recall(&scope(), "window colour", 5).is_ok());
    let done = AtomicBool::new(false);
    let stopped = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                interrupter.interrupt();
            }
        });
        let mut outcomes = (0..10_000).map(|_| house.ledger.recall(&scope(), "window colour painted", 5));
        let stopped = outcomes.any(|outcome| outcome == Err(StoreError::Interrupted));
        done.store(true, Ordering::Relaxed);
        stopped
    });
    assert!(stopped);
    assert!(house.ledger.recall(&scope(), "window colour", 5).is_ok());
}
