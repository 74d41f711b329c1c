//! One-line bars that lose whole items by rank instead of being clipped in the middle of one.

use ratatui::text::{Line, Span};

use crate::text::width;

/// An item and its rank; rank 0 goes last.
pub(super) struct Item {
    rank: u8,
    spans: Vec<Span<'static>>,
}

pub(super) fn item(rank: u8, span: Span<'static>) -> Item {
    Item { rank, spans: vec![span] }
}

pub(super) fn items(rank: u8, spans: Vec<Span<'static>>) -> Item {
    Item { rank, spans }
}

impl Item {
    fn columns(&self) -> usize {
        self.spans.iter().map(|s| width(&s.content)).sum()
    }
}

/// Items from the left and from the right, with `gap` between neighbours; what does not fit goes, worst rank first.
pub(super) fn bar(
    mut left: Vec<Item>,
    mut right: Vec<Item>,
    gap: &Span<'static>,
    columns: usize,
) -> Line<'static> {
    loop {
        let used = total(&left, gap) + total(&right, gap) + usize::from(!right.is_empty());
        let worst = left.iter().chain(&right).map(|i| i.rank).max();
        match worst {
            Some(rank) if used > columns && rank > 0 => {
                if !drop_last(&mut right, rank) {
                    drop_last(&mut left, rank);
                }
            }
            _ => return line(left, right, gap, columns),
        }
    }
}

fn drop_last(items: &mut Vec<Item>, rank: u8) -> bool {
    let at = items.iter().rposition(|i| i.rank == rank);
    at.map(|n| items.remove(n)).is_some()
}

fn total(items: &[Item], gap: &Span<'_>) -> usize {
    items.iter().map(Item::columns).sum::<usize>() + width(&gap.content) * items.len().saturating_sub(1)
}

fn line(left: Vec<Item>, right: Vec<Item>, gap: &Span<'static>, columns: usize) -> Line<'static> {
    let fill = columns.saturating_sub(total(&left, gap) + total(&right, gap));
    let mut spans = joined(left, gap);
    if !right.is_empty() {
        spans.push(Span::raw(" ".repeat(fill)));
        spans.extend(joined(right, gap));
    }
    Line::from(spans)
}

fn joined(items: Vec<Item>, gap: &Span<'static>) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            spans.push(gap.clone());
        }
        spans.extend(item.spans);
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_rank_goes_first_and_nothing_is_clipped() {
        let make = || {
            (
                vec![item(0, "state".into()), item(2, "turn".into())],
                vec![item(3, "keys".into()), item(1, "F2".into())],
            )
        };
        let at = |columns| {
            let (left, right) = make();
            bar(left, right, &Span::raw(" · "), columns).to_string()
        };
        assert_eq!(at(30), "state · turn         keys · F2");
        assert_eq!(at(16), "state · turn  F2");
        assert_eq!(at(10), "state   F2");
        assert_eq!(at(5), "state");
    }
}
