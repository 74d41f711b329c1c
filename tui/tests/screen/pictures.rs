//! Snapshots of whole screens.

use agentspine_tui::Theme;

use crate::scripts::{NAMES, script};
use crate::{cells, picture};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 36), (40, 10)];
const PLAIN: Theme = Theme { ascii: false, no_color: false, still: false };

#[test]
fn every_screen_looks_as_it_was_reviewed() {
    for name in NAMES {
        for size in SIZES {
            let state = script(name, size, PLAIN);
            insta::assert_snapshot!(format!("{name}-{}x{}", size.0, size.1), picture(&state, size));
        }
    }
}

#[test]
fn below_forty_by_ten_the_composer_stays_and_a_line_says_so() {
    let state = script("answer", (30, 6), PLAIN);
    insta::assert_snapshot!(picture(&state, (30, 6)), @r"
    Too small for the transcript…
    › Ask anything — / for comma…



     ● ready · demo
    ");
}

#[test]
fn no_size_panics() {
    for name in NAMES {
        for size in
            [(1, 1), (2, 2), (5, 3), (20, 5), (39, 9), (99, 28), (100, 27), (100, 28), (200, 50), (300, 12)]
        {
            cells(&script(name, size, PLAIN), size);
        }
    }
}

#[test]
fn the_ascii_theme_draws_nothing_but_ascii() {
    let theme = Theme { ascii: true, ..PLAIN };
    for name in NAMES.iter().filter(|n| **n != "tools") {
        for size in SIZES {
            let text = picture(&script(name, size, theme), size);
            let foreign: String = text.chars().filter(|c| !c.is_ascii() && *c != '∅').collect();
            assert_eq!(foreign, "", "{name} {size:?}");
        }
    }
}

#[test]
fn only_the_allowed_colours_are_used_and_none_with_no_color() {
    use ratatui::style::Color;
    for name in NAMES {
        for (no_color, allowed) in [
            (false, vec![Color::Reset, Color::Cyan, Color::Green, Color::Red, Color::Magenta]),
            (true, vec![Color::Reset]),
        ] {
            let buffer = cells(&script(name, (120, 36), Theme { no_color, ..PLAIN }), (120, 36));
            for cell in &buffer.content {
                assert!(allowed.contains(&cell.fg), "{name}: {:?}", cell.fg);
                assert_eq!(cell.bg, Color::Reset, "{name}");
            }
        }
    }
}
