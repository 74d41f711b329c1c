//! Which retrieved items a call injects: required ones all, optional ones ranked and cut to the recall budget.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::failure::{Detail, Refusal};
use crate::ids::Id;
use crate::policy::RecallBudget;
use crate::recall::{Item, Outcome, Planned};

/// Bytes of required items that one briefing may hold; above it the turn is refused, never cut.
pub(crate) const REQUIRED_RECALL_BYTES_MAX: usize = 256 * 1024;
/// A token is estimated as this many bytes.
const BYTES_PER_TOKEN: u64 = 4;

/// Provider, item id and revision of an item that an earlier span holds.
pub(crate) type HeldItem<'a> = (&'a Id, &'a Id, &'a Id);

/// What became of the items of all providers, by provider.
#[derive(Default)]
pub(crate) struct Selection<'a> {
    /// Items to inject, in briefing order.
    pub(crate) injected: Vec<(&'a Id, &'a Item)>,
    /// Items an earlier span already holds.
    pub(crate) replayed: Vec<(&'a Id, &'a Item)>,
    /// Ids left out: over the budget, or near-duplicates.
    pub(crate) left_out: BTreeMap<&'a Id, Vec<&'a Id>>,
}

/// Ranks and cuts. `pairs` are in the profile's order.
pub(crate) fn select<'a>(
    pairs: &[(&'a Planned, &'a Outcome)],
    budget: RecallBudget,
    held: &HashSet<HeldItem<'_>>,
) -> Result<Selection<'a>, Refusal> {
    let mut choice = Chooser { selection: Selection::default(), held, seen: BTreeSet::new() };
    let mut required_bytes = 0;
    for (planned, outcome) in pairs.iter().filter(|(planned, _)| planned.provider.required) {
        for item in outcome.items() {
            if choice.fresh(&planned.provider.id, item, true) {
                required_bytes += item.claim.len() + item.why_loaded.len() + item.about.len();
                choice.selection.injected.push((&planned.provider.id, item));
            }
        }
    }
    if required_bytes > REQUIRED_RECALL_BYTES_MAX {
        return Err(too_large(required_bytes));
    }
    let mut left = budget;
    for (provider, item) in by_turns(pairs) {
        let cost = (item.claim.len() + item.why_loaded.len() + item.about.len()) as u64;
        if !choice.fresh(provider, item, false) {
            continue;
        }
        if left.entries == 0 || left.bytes < cost || left.tokens < cost.div_ceil(BYTES_PER_TOKEN) {
            choice.leave_out(provider, item);
            continue;
        }
        left.entries -= 1;
        left.bytes -= cost;
        left.tokens -= cost.div_ceil(BYTES_PER_TOKEN);
        choice.selection.injected.push((provider, item));
    }
    Ok(choice.selection)
}

struct Chooser<'a, 'h> {
    selection: Selection<'a>,
    held: &'h HashSet<HeldItem<'h>>,
    seen: BTreeSet<String>,
}

impl<'a> Chooser<'a, '_> {
    /// Whether the item is new to the conversation and, unless required, to this briefing; sorts it away if not.
    fn fresh(&mut self, provider: &'a Id, item: &'a Item, required: bool) -> bool {
        if self.held.contains(&(provider, &item.id, &item.revision)) {
            self.selection.replayed.push((provider, item));
            return false;
        }
        let first = self.seen.insert(fold(&item.claim));
        if !first && !required {
            self.leave_out(provider, item);
        }
        first || required
    }

    fn leave_out(&mut self, provider: &'a Id, item: &'a Item) {
        self.selection.left_out.entry(provider).or_default().push(&item.id);
    }
}

/// Optional items by turns: the first of each provider, the second of each, and so on.
fn by_turns<'a>(pairs: &[(&'a Planned, &'a Outcome)]) -> Vec<(&'a Id, &'a Item)> {
    let lists: Vec<(&Id, &[Item])> = pairs
        .iter()
        .filter(|(planned, _)| !planned.provider.required)
        .map(|(planned, outcome)| (&planned.provider.id, outcome.items()))
        .collect();
    let rounds = lists.iter().map(|(_, items)| items.len()).max().unwrap_or(0);
    (0..rounds)
        .flat_map(|round| {
            lists.iter().filter_map(move |(id, items)| items.get(round).map(|item| (*id, item)))
        })
        .collect()
}

/// The shape under which near-duplicates meet: letters and digits only, lower case; a claim without any is itself.
fn fold(claim: &str) -> String {
    let folded: String = claim.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if folded.is_empty() { claim.to_owned() } else { folded }
}

fn too_large(bytes: usize) -> Refusal {
    Refusal::new(
        Detail::BriefBytes,
        format!("Required providers returned {bytes} bytes; one briefing holds {REQUIRED_RECALL_BYTES_MAX}."),
        "Let the required provider return fewer items, or make it optional: agentspine preflight-policy --show",
    )
}
