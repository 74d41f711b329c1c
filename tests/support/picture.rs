//! A terminal's screen as text, as SVG and as PNG: a fixed grid of cells, nothing measured.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use vt100::{Cell, Color, Screen};

/// Size of the text, and the width of one of its cells: DejaVu Sans Mono advances by 1233/2048 of its size.
const FONT_PX: f32 = 16.0;
const CELL_WIDTH: f32 = FONT_PX * 1233.0 / 2048.0;
/// As high as the font's own line, so that box drawing meets.
const CELL_HEIGHT: f32 = FONT_PX * (1901.0 + 483.0) / 2048.0;
/// Where the letters stand in their cell.
const BASELINE: f32 = FONT_PX * 1901.0 / 2048.0;
/// Air around the grid.
const MARGIN: f32 = 14.0;
/// Pixels of the PNG for one of the SVG.
const PNG_SCALE: f32 = 2.0;

const BACKGROUND: &str = "#15181e";
const FOREGROUND: &str = "#d7dae0";
/// Strength of dim text.
const DIM: f32 = 0.6;
/// The sixteen colours of the terminal.
const ANSI: [&str; 16] = [
    "#15181e", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0", "#5c6370",
    "#ef7a84", "#a9d48a", "#f0cf8e", "#77bdf5", "#d48bea", "#68c7d3", "#ffffff",
];
/// Where systems keep the font.
const FONT_FOLDERS: [&str; 4] = [
    "/usr/share/fonts/truetype/dejavu",
    "/usr/share/fonts/TTF",
    "/usr/share/fonts/dejavu-sans-mono-fonts",
    "/usr/share/fonts/dejavu",
];
/// The last one has the signs that the first ones lack.
const FONT_FILES: [&str; 3] = ["DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", "DejaVuSans.ttf"];

/// Writes NAME.txt, NAME.svg and NAME.png.
pub fn write(screen: &Screen, folder: &Path, name: &str) {
    let svg = svg(screen);
    fs::write(folder.join(format!("{name}.txt")), text(screen)).unwrap();
    fs::write(folder.join(format!("{name}.svg")), &svg).unwrap();
    fs::write(folder.join(format!("{name}.png")), png(&svg)).unwrap();
}

/// A line a row, without trailing blanks.
fn text(screen: &Screen) -> String {
    let (_, columns) = screen.size();
    screen.rows(0, columns.get()).map(|row| format!("{}\n", row.trim_end())).collect()
}

fn svg(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let (width, height) = (x(columns) + MARGIN, y(rows) + MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"DejaVu Sans Mono, monospace\" font-size=\"{FONT_PX}\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for row in 0..rows {
        backgrounds(screen, row, columns, &mut out);
        for run in runs(screen, row, columns) {
            run.draw(row, &mut out);
        }
    }
    if !screen.hide_cursor() {
        let (row, column) = screen.cursor_position();
        let (left, top) = (x(column), y(row));
        let _ = writeln!(
            out,
            "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{CELL_WIDTH:.2}\" height=\"{CELL_HEIGHT:.2}\" \
             fill=\"{FOREGROUND}\" opacity=\"0.55\"/>"
        );
    }
    out.push_str("</svg>\n");
    out
}

fn x(column: u16) -> f32 {
    f32::from(column).mul_add(CELL_WIDTH, MARGIN)
}

fn y(row: u16) -> f32 {
    f32::from(row).mul_add(CELL_HEIGHT, MARGIN)
}

fn backgrounds(screen: &Screen, row: u16, columns: u16, out: &mut String) {
    for column in 0..columns {
        let Some(fill) = screen.cell(row, column).and_then(background) else { continue };
        let (left, top) = (x(column), y(row));
        let _ = writeln!(
            out,
            "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{CELL_WIDTH:.2}\" height=\"{CELL_HEIGHT:.2}\" fill=\"{fill}\"/>"
        );
    }
}

/// Text of one look that is drawn in one piece.
struct Run {
    column: u16,
    text: String,
    look: Look,
}

#[derive(PartialEq, Clone)]
struct Look {
    colour: String,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let (colour, bold) = (foreground(cell), cell.bold());
        Self { colour, bold, dim: cell.dim(), italic: cell.italic(), underline: cell.underline() }
    }
}

/// Words: a run ends at a blank, at another look, and around every sign that may come from another font.
fn runs(screen: &Screen, row: u16, columns: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut open = false;
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else { continue };
        let (text, look) = (cell.contents(), Look::of(cell));
        if text.trim().is_empty() {
            open = false;
            continue;
        }
        let plain = text.is_ascii();
        match runs.last_mut() {
            Some(run) if open && plain && run.look == look => run.text.push_str(text),
            _ => runs.push(Run { column, text: text.to_owned(), look }),
        }
        open = plain;
    }
    runs
}

impl Run {
    fn draw(&self, row: u16, out: &mut String) {
        let Look { colour, bold, dim, italic, underline } = &self.look;
        let mut style = format!("fill=\"{colour}\"");
        for (on, attribute) in [
            (*bold, "font-weight=\"bold\"".to_owned()),
            (*dim, format!("opacity=\"{DIM}\"")),
            (*italic, "font-style=\"italic\"".to_owned()),
            (*underline, "text-decoration=\"underline\"".to_owned()),
        ] {
            if on {
                style.push(' ');
                style.push_str(&attribute);
            }
        }
        let (left, base) = (x(self.column), y(row) + BASELINE);
        let text = self.text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(out, "<text x=\"{left:.2}\" y=\"{base:.2}\" {style}>{text}</text>");
    }
}

fn foreground(cell: &Cell) -> String {
    let (own, other) = (cell.fgcolor(), cell.bgcolor());
    if cell.inverse() { colour(other, BACKGROUND) } else { colour(own, FOREGROUND) }
}

/// Nothing where it is the terminal's own.
fn background(cell: &Cell) -> Option<String> {
    match (cell.inverse(), cell.bgcolor()) {
        (true, _) => Some(colour(cell.fgcolor(), FOREGROUND)),
        (false, Color::Default) => None,
        (false, own) => Some(colour(own, BACKGROUND)),
    }
}

fn colour(colour: Color, default: &str) -> String {
    match colour {
        Color::Default => default.to_owned(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        Color::Idx(n) => ANSI.get(usize::from(n)).map_or_else(|| cube(n), |known| (*known).to_owned()),
    }
}

/// The 256-colour table above the first sixteen: a cube of six steps, then greys.
fn cube(n: u8) -> String {
    if n >= 232 {
        let grey = 8 + (n - 232) * 10;
        return format!("#{grey:02x}{grey:02x}{grey:02x}");
    }
    let step = |n: u8| if n == 0 { 0 } else { 55 + n * 40 };
    let n = n - 16;
    format!("#{:02x}{:02x}{:02x}", step(n / 36), step(n / 6 % 6), step(n % 6))
}

fn png(svg: &str) -> Vec<u8> {
    let mut fonts = fontdb::Database::new();
    for name in FONT_FILES {
        let found = FONT_FOLDERS.iter().find_map(|folder| fs::read(Path::new(folder).join(name)).ok());
        fonts.load_font_data(
            found.unwrap_or_else(|| panic!("{name} is not installed (package fonts-dejavu-core)")),
        );
    }
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).unwrap();
    let size = tree.size().to_int_size().scale_by(PNG_SCALE).unwrap();
    let mut pixels = Pixmap::new(size.width(), size.height()).unwrap();
    resvg::render(&tree, Transform::from_scale(PNG_SCALE, PNG_SCALE), &mut pixels.as_mut());
    pixels.encode_png().unwrap()
}
