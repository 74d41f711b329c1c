//! Columns for people: as wide as their widest cell, two blanks between.

/// Rows as aligned lines, the heading first; the last column is not padded.
pub(crate) fn lines<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let mut widths = heading.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let all = std::iter::once(heading.map(str::to_owned)).chain(rows.iter().cloned());
    all.map(|row| line(&row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// Wall milliseconds as UTC date and time, to the second.
pub(crate) fn when(wall_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(wall_ms)
        .map(|at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            ["1".to_owned(), "long cell".to_owned(), "x".to_owned()],
            ["22".to_owned(), "é".to_owned(), String::new()],
        ];
        assert_eq!(lines(["no", "name", "end"], &rows), ["no  name       end", "1   long cell  x", "22  é"]);
    }

    #[test]
    fn times_are_utc_and_say_so() {
        assert_eq!(when(0), "1970-01-01 00:00:00Z");
    }
}
