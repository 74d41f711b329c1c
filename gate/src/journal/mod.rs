//! The journal: one append-only, chained table of what happened to every receipt, and its anchor.
