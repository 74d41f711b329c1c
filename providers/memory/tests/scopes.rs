//! No memory of one scope is ever seen from another, whatever the ids look like.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::collections::BTreeSet;

use agentspine_gate::Id;
use agentspine_memory::{Forgotten, Ledger, MemoryScope, Name};
use proptest::prelude::*;
use support::{House, id, memory};

/// Few and alike, with the prefixes and separators of our own names in them: scopes are to collide.
fn some_id() -> impl Strategy<Value = Id> {
    prop::sample::select(vec![
        "a",
        "A",
        "a:a",
        "a/a",
        "a/../a",
        "project:a",
        "Project:a",
        "project:a:a",
        "dshmem:v1:a",
        "dshsession:v1:a",
        "a+a",
        "a-",
        "0",
        "00",
    ])
    .prop_map(id)
}

fn some_scope() -> impl Strategy<Value = MemoryScope> {
    let optional = || prop::option::of(some_id());
    (some_id(), some_id(), optional(), optional()).prop_map(|(tenant_id, user_id, project_id, group_id)| {
        MemoryScope { tenant_id, user_id, project_id, group_id }
    })
}

#[derive(Debug, Clone)]
enum Act {
    Remember,
    Forget(prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<(MemoryScope, Act)>> {
    let act = prop_oneof![3 => Just(Act::Remember), 1 => any::<prop::sample::Index>().prop_map(Act::Forget)];
    prop::collection::vec((some_scope(), act), 1..40)
}

fn titles(ledger: &Ledger, scope: &MemoryScope) -> [BTreeSet<String>; 3] {
    let found = ledger.search(scope, "shared words", 25).unwrap().entries;
    let recalled = ledger.recall(scope, "shared words", 25).unwrap();
    let listed = ledger.records(scope, None, 100).unwrap();
    let of = |entries: Vec<agentspine_memory::Entry>| entries.into_iter().map(|entry| entry.title).collect();
    [of(found), of(recalled.into_iter().map(|recalled| recalled.entry).collect()), of(listed)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_path_returns_exactly_the_memories_of_its_scope(acts in acts(), stranger in some_scope()) {
        let mut house = House::new();
        let mut kept: Vec<(MemoryScope, Id, String)> = Vec::new();
        for (n, (scope, act)) in acts.into_iter().enumerate() {
            match act {
                Act::Remember => {
                    let title = format!("shared words {n}");
                    let memory = house.ledger.remember(&memory(&title, "shared words"), &scope).unwrap();
                    kept.push((scope, memory.memory_id, title));
                }
                Act::Forget(at) if !kept.is_empty() => {
                    let at = at.index(kept.len());
                    let (owner, memory, _) = kept[at].clone();
                    let forgotten = house.ledger.forget(&scope, &memory, 1).unwrap();
                    if scope == owner {
                        prop_assert!(matches!(forgotten, Forgotten::Now(_)));
                        kept.remove(at);
                    } else {
                        prop_assert_eq!(forgotten, Forgotten::Unknown);
                    }
                }
                Act::Forget(_) => {}
            }
        }
        let scopes: Vec<MemoryScope> = kept.iter().map(|(scope, ..)| scope.clone()).chain([stranger]).collect();
        for scope in scopes {
            let own: Vec<_> = kept.iter().filter(|(owner, ..)| *owner == scope).collect();
            let expected: BTreeSet<String> = own.iter().map(|(.., title)| title.clone()).collect();
            let [found, recalled, listed] = titles(&house.ledger, &scope);
            prop_assert_eq!(&listed, &expected);
            prop_assert!(found.is_subset(&expected) && found.len() == expected.len().min(25));
            prop_assert!(recalled.is_subset(&expected));
            for (owner, memory, _) in &kept {
                let seen = house.ledger.source(&scope, memory).unwrap().is_some();
                prop_assert_eq!(seen, *owner == scope);
                let paged = house.ledger.records(&scope, Some(memory), 100).unwrap();
                prop_assert!(paged.iter().all(|entry| expected.contains(&entry.title)));
            }
        }
    }

    #[test]
    fn two_scopes_never_share_a_name(a in some_scope(), b in some_scope(), memory in some_id(), other in some_id()) {
        let same = a == b && memory == other;
        prop_assert_eq!(Name::memory(&a, &memory) == Name::memory(&b, &other), same);
        prop_assert_eq!(Name::session(&a, &memory) == Name::session(&b, &other), same);
        prop_assert_eq!(a.digest() == b.digest(), a == b);
    }
}
