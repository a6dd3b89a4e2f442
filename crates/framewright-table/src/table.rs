//! Tables of text for a terminal, whose columns never touch.
//!
//! A column is as wide as its widest cell and a gap of at least [`GAP`] blank, and at least as wide as the table asks
//! for or its cells are padded. So a table keeps its look from run to run as long as its numbers are of the usual size,
//! and grows where they are not:
//!
//! ```
//! use framewright_table::{Table, cells};
//!
//! let mut table = Table::new("<8>9");
//! table.row(cells!["{}" = "", "{}" = "requests", "{}" = "failed"]);
//! table.row(cells!["{}" = "order 0", "{}" = 692_422, "{}" = 0]);
//! table.row(cells!["{}" = "order 9", "{}" = 7, "{}" = 123_456_789_012_u64]);
//! assert_eq!(
//!     table.to_string(),
//!     "         requests       failed\n\
//!      order 0    692422            0\n\
//!      order 9         7 123456789012\n"
//! );
//! ```
//!
//! Rejected: fixed widths, which every number outgrows some day; and a table of all text of a report, since a wide cell
//! of one table would then widen all others.

use std::fmt;

/// Blanks between two columns, at least. More would push tables of long numbers, which are many, over a terminal's
/// width.
pub const GAP: usize = 1;

/// Makes the cells of a row: formats with the least width of each cell, with an argument after `=` or captured by name.
#[macro_export]
macro_rules! cells {
    (@one $format:literal = $value:expr) => { ::std::format!($format, $value) };
    (@one $format:literal) => { ::std::format!($format) };
    ($($format:literal $(= $value:expr)?),* $(,)?) => {
        ::std::vec![$( $crate::cells!(@one $format $(= $value)?) ),*]
    };
}

/// A table, printed as a whole once all of its rows are known.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// The demands on a column.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    /// Whether cells end at its right end; otherwise they start at its left end.
    is_right: bool,
    /// Its least width.
    least: usize,
}

#[derive(Clone, Debug)]
enum Row {
    /// Texts before and after the cells, such as a terminal's codes; and the cells.
    Cells([&'static str; 2], Vec<String>),
    Text(String),
}

impl Table {
    /// A table without rows, with these columns, from left to right.
    ///
    /// `<` is a column whose cells start at its left end, `>` one whose cells end at its right end. A number after the
    /// sign is the column's least width. The last one holds for all further columns.
    pub fn new(columns: &str) -> Table {
        let mut table = Table::default();
        for sign in columns.chars() {
            match (sign.to_digit(10), table.columns.last_mut()) {
                (Some(digit), Some(column)) => column.least = column.least * 10 + digit as usize,
                _ => table.columns.push(Column { is_right: sign == '>', least: 0 }),
            }
        }
        table
    }

    /// Adds a row. A cell that is padded asks for that width for its column, too.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row::Cells([""; 2], cells));
    }

    /// Adds a row between two texts that take no room.
    pub fn row_within(&mut self, around: [&'static str; 2], cells: Vec<String>) {
        self.rows.push(Row::Cells(around, cells));
    }

    /// Adds lines across all columns.
    pub fn text(&mut self, text: impl Into<String>) {
        self.rows.push(Row::Text(text.into()));
    }

    fn column(&self, number: usize) -> Column {
        self.columns.get(number).or(self.columns.last()).copied().unwrap_or_default()
    }

    fn is_right(&self, column: usize) -> bool {
        self.column(column).is_right
    }

    /// Blanks before the cells of a column that starts where another one ends.
    fn lead(&self, column: usize) -> usize {
        if column > 0 && !self.is_right(column) && self.is_right(column - 1) { 2 * GAP } else { 0 }
    }

    /// The width of each column, with the blanks before it.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            let Row::Cells(_, cells) = row else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            for (column, cell) in cells.iter().enumerate() {
                let before = if column > 0 && self.is_right(column) { GAP } else { self.lead(column) };
                // Between two columns that are full at their near ends the first one has the gap.
                let is_next_left = column + 1 < cells.len() && !self.is_right(column + 1);
                let after = if is_next_left && !self.is_right(column) { GAP } else { 0 };
                let text = self.bare(column, cell);
                let needs = if text.is_empty() { 0 } else { before + width(text) + after };
                widths[column] = widths[column].max(self.column(column).least).max(width(cell)).max(needs);
            }
        }
        widths
    }

    /// A cell without what it is padded by.
    fn bare<'c>(&self, column: usize, cell: &'c str) -> &'c str {
        match (self.is_right(column), self.lead(column)) {
            (true, _) => cell.trim_start(),
            (false, 0) => cell.trim_end(),
            (false, _) => cell.trim(),
        }
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            let ([on, off], cells) = match row {
                Row::Text(text) => {
                    writeln!(f, "{text}")?;
                    continue;
                }
                Row::Cells(around, cells) => (around, cells),
            };
            let mut line = String::new();
            for (column, (cell, wide)) in cells.iter().zip(&widths).enumerate() {
                let cell = self.bare(column, cell);
                let cell = format!("{:1$}{cell}", "", self.lead(column));
                line += &if self.is_right(column) { format!("{cell:>wide$}") } else { format!("{cell:<wide$}") };
            }
            writeln!(f, "{on}{}{off}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether no two cells of a row have less than a gap between them.
    fn are_apart(table: &Table, cells: &[&str]) {
        let text = table.to_string();
        let line = text.lines().find(|line| cells.iter().all(|cell| line.contains(cell)));
        let line = line.unwrap_or_else(|| panic!("{cells:?} are in no line of\n{text}"));
        let mut rest = line;
        for (i, cell) in cells.iter().enumerate() {
            let at = rest.find(cell).unwrap();
            assert!(i == 0 || (at >= GAP && rest[..at].trim().is_empty()), "{cell} in {line}");
            rest = &rest[at + cell.len()..];
        }
    }

    #[test]
    fn cells_of_the_usual_size_are_where_they_are_padded_to() {
        let mut table = Table::new("<>>");
        let (name, number) = ("orders", 7);
        table.row(cells!["  {name:<8}", "{:>10}" = 1234, "{number:>6}"]);
        table.text("in between, as wide as it is");
        table.row(cells!["  {:<8}" = "", "{:>10}" = "of them", "{:>6}" = "-"]);
        assert_eq!(
            table.to_string(),
            "  orders        1234     7\nin between, as wide as it is\n             of them     -\n"
        );
    }

    #[test]
    fn no_cell_touches_another() {
        let long = "123,456,789,012,345";
        for sides in ["<>", "<<", ">>", "><", "<><>", "<<>>"] {
            for wide in 0..4 {
                let mut table = Table::new(sides);
                table.row((0..4).map(|i| format!("{:>4}", format!("h{i}"))).collect());
                let cells: Vec<&str> = (0..4).map(|i| if i == wide { long } else { "9999" }).collect();
                table.row(cells.iter().map(|cell| format!("{cell:>4}")).collect());
                are_apart(&table, &cells);
                are_apart(&table, &["h0", "h1", "h2", "h3"]);
            }
        }
    }

    #[test]
    fn columns_stay_columns() {
        let mut table = Table::new("<>");
        for row in [["a", "1", "22"], ["bb", "1234567", "3"], ["c", "", "4444444"]] {
            table.row(row.iter().map(|cell| format!("{cell:>4}")).collect());
        }
        let ends: Vec<usize> = table.to_string().lines().map(|line| line.chars().count()).collect();
        assert_eq!(ends, [ends[0]; 3], "{table}");
        assert_eq!(Table::new("<>").to_string(), "");
    }

    #[test]
    fn columns_have_a_least_width() {
        let mut padded = Table::new("<>");
        let mut asked = Table::new("<6>4>12");
        for row in [["a", "", "22", "1"], ["longer name", "1234567", "3", ""]] {
            padded.row(cells!["{:<6}" = row[0], "{:>4}" = row[1], "{:>12}" = row[2], "{:>12}" = row[3]]);
            asked.row(row.map(str::to_owned).to_vec());
        }
        assert_eq!(asked.to_string(), padded.to_string());
    }

    #[test]
    fn codes_take_no_room() {
        let mut table = Table::new("<>");
        table.row(cells!["{:4}" = "a", "{:>5}" = 1]);
        table.row_within(["\x1b[1m", "\x1b[0m"], cells!["{:4}" = "b", "{:>5}" = 2]);
        assert_eq!(table.to_string(), "a       1\n\x1b[1mb       2\x1b[0m\n");
    }
}
