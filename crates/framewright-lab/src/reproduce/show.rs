//! What a reproduction shows, described once for a terminal and for a page.
//!
//! An experiment says in which order its tables, notes and plots come, and where on the page each stands; [`Show`]
//! writes both forms as it is told. A [`Grid`] is a table of both: its columns for a terminal, its heads for a page,
//! and rows of [`GridCell`]s, which differ between the two only where they say so. What an experiment passes as a
//! page's caption, head or paragraph is HTML; cells are plain text and are escaped here.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

use framewright_sim::report::Report;
use framewright_table::{Table, wrapped};
use minijinja::value::Serde;
use minijinja::{HtmlEscape, Value};
use serde::Serialize;

use super::check::Standing;
use super::fields::{FieldMeaning, linked};
use super::fitted::{self, Fitted};
use super::variation::{Band, Varied};
use super::why;
use crate::html::plot::Plot;
use framewright_table::figures;

/// Part of a page, in the order of a page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Place {
    /// The published table, above what was fitted.
    #[default]
    Table,
    /// Below that, above the checks.
    Beside,
    /// Below the checks.
    Details,
}

/// Content of a part of a page, for its template.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Piece {
    Html(String),
    /// Names for the legend, and plots with their numbers on the page.
    Plots(Vec<String>, Vec<(Plot, usize)>),
    /// Pictures of memory.
    Maps(Value),
}

/// All that a reproduction shows but its checks, as text and as pieces of a page.
#[derive(Default, Serialize)]
pub struct Show {
    #[serde(skip)]
    pub(super) title: String,
    pub(super) opening: String,
    pub(super) ours: String,
    /// Text of the page after that.
    pub also: String,
    /// Text of the page in place of the usual words on fitted numbers.
    pub(super) evidence: Option<String>,
    #[serde(skip)]
    pub(super) text: String,
    #[serde(skip)]
    pub(super) tallies_checks: bool,
    #[serde(skip)]
    pub(super) runs: Vec<(String, Report)>,
    #[serde(skip)]
    reasons: Vec<(String, String)>,
    parts: [Vec<Piece>; 3],
    /// Fields that the page's reasons name.
    fields: BTreeSet<FieldMeaning>,
    #[serde(skip)]
    place: Place,
}

impl Show {
    /// The first line for a terminal, the first paragraph of a page up to what differs, and what differs from the
    /// published runs.
    pub fn open(&mut self, title: impl Into<String>, opening: impl Into<String>, ours: impl Into<String>) {
        (self.title, self.opening, self.ours) = (title.into(), opening.into(), ours.into());
    }

    /// Puts all that follows at this place of the page.
    pub fn at(&mut self, place: Place) {
        self.place = place;
    }

    /// A line for a terminal alone.
    pub fn line(&mut self, text: impl Display) {
        let _ = writeln!(self.text, "{text}");
    }

    /// A paragraph for a terminal alone, broken between words.
    pub fn note(&mut self, text: &str, indent: usize) {
        self.text += &broken(text, indent);
    }

    /// HTML, for a page alone.
    pub fn html(&mut self, html: impl Into<String>) {
        let html = linked(&html.into(), &mut self.fields);
        self.parts[self.place as usize].push(Piece::Html(html));
    }

    /// A heading, for a page alone.
    pub fn heading(&mut self, heading: &str) {
        self.html(format!("<h2>{heading}</h2>\n"));
    }

    /// A table.
    pub(crate) fn grid(&mut self, grid: &Grid) {
        if !grid.columns.is_empty() {
            let above = if grid.above.is_empty() { String::new() } else { format!("{}\n", grid.above) };
            let _ = write!(self.text, "\n{above}{}", grid.table);
        }
        if !grid.label.is_empty() {
            let Grid { label, caption, heads, body, .. } = grid;
            self.html(format!(
                "<div class=\"scroll\" role=\"region\" aria-label=\"{label}\" tabindex=\"0\">\n<table>\n<caption>{caption}</caption>\n\
                 {heads}\n<tbody>\n{body}</tbody>\n</table>\n</div>\n"
            ));
        }
    }

    /// Plots for a page alone, numbered from `first` on, below a legend if there are names for one.
    pub(crate) fn plots(&mut self, legend: Vec<String>, first: usize, plots: impl IntoIterator<Item = Plot>) {
        self.parts[self.place as usize].push(Piece::Plots(legend, plots.into_iter().zip(first..).collect()));
    }

    /// Pictures of memory, for a page alone.
    pub fn maps(&mut self, maps: impl Serialize) {
        self.parts[self.place as usize].push(Piece::Maps(Value::from(Serde(maps))));
    }

    /// A run that the page accounts for; the sentence that says why it is as it is.
    pub fn run(&mut self, name: &str, report: &Report) -> String {
        self.runs.push((name.to_owned(), report.clone()));
        why::sentence(report)
    }

    /// A reason for [`Show::reasons`].
    pub fn reason(&mut self, name: &str, why: &str) {
        self.reasons.push((name.to_owned(), why.to_owned()));
    }

    /// All reasons so far: for a terminal below a heading, for a page without one.
    pub fn reasons(&mut self, heading: &str) {
        let all = std::mem::take(&mut self.reasons);
        self.html(definitions(all.iter().map(|(name, why)| (name, why))));
        self.line(format!("\n{heading}"));
        all.iter().for_each(|(name, why)| self.note(&format!("  {name}: {why}"), 4));
    }

    /// The page's part of reasons: a heading, and all reasons so far.
    pub(crate) fn whys(&mut self, heading: &str) {
        self.at(Place::Details);
        self.heading("Why");
        self.reasons(heading);
    }

    /// Says for a terminal which rows are no evidence, if there are such.
    pub fn fitted(&mut self, fitted: &[Fitted]) {
        if !fitted.is_empty() {
            self.note(&format!("* fitted ({}): says nothing about the model", fitted::list(fitted)), 2);
        }
    }

    /// Says for a terminal where bands come from: what was varied, and how long the runs of both rounds were.
    pub fn varied(&mut self, varied: Option<(&Varied, [String; 2])>) {
        let Some((varied, [screen, band])) = varied else { return self.line("no bands in a quick run") };
        let names: Vec<&str> = varied.chosen.iter().map(|reach| reach.parameter.as_str()).collect();
        let words = format!(
            "band: each of {} made a tenth smaller and larger ({band}); chosen from {} numbers, each made a tenth larger \
             ({screen}), of which no other moved anything by more than {:.1} points",
            names.join(", "),
            varied.screened,
            varied.rest
        );
        self.note(&words, 2);
    }
}

/// Names with their reasons, as HTML.
pub fn definitions<N: Display, R: Display>(all: impl IntoIterator<Item = (N, R)>) -> String {
    let of = |(name, why): (N, R)| format!("<dt>{}</dt><dd>{}.</dd>\n", escaped(name), escaped(why));
    format!("<dl class=\"why\">\n{}</dl>\n", all.into_iter().map(of).collect::<String>())
}

/// Breaks a text between words for a terminal of 100 columns; indents the lines after the first.
pub fn broken(text: &str, indent: usize) -> String {
    wrapped(text, ' ', 100, indent)
}

/// `text` as HTML.
pub fn escaped(text: impl Display) -> String {
    HtmlEscape(&text.to_string()).to_string()
}

/// A table for a terminal, for a page or for both.
#[derive(Default)]
pub struct Grid {
    columns: Vec<(char, usize)>,
    above: String,
    table: Table,
    label: String,
    caption: String,
    heads: String,
    body: String,
}

impl Grid {
    /// A table for a terminal if there are columns: `<10 name|>18 cycles` are two, each with the side at which its
    /// cells begin, its least width, and its head.
    pub fn new(columns: &str) -> Self {
        let parts = columns.split('|').filter_map(|column| {
            let (shape, head) = column.split_once(' ').unwrap_or((column, ""));
            let mut letters = shape.chars();
            Some((letters.next()?, letters.as_str().parse().ok()?, head))
        });
        let parts: Vec<(char, usize, &str)> = parts.collect();
        let sides: String = parts.iter().map(|(side, ..)| side).collect();
        let mut grid = Self {
            columns: parts.iter().map(|&(side, width, _)| (side, width)).collect(),
            table: Table::new(&sides),
            ..Self::default()
        };
        if parts.iter().any(|(.., head)| !head.is_empty()) {
            let heads = parts.iter().map(|(.., head)| *head).map(in_text);
            grid.row(heads.collect());
        }
        grid
    }

    /// Lines above the heads for a terminal.
    #[must_use]
    pub fn above(mut self, above: impl Into<String>) -> Self {
        self.above = above.into();
        self
    }

    /// A table for a page as well. In `heads`, `Kernel|Change:theirs;ours` is a column and two with a head in common; a
    /// head that begins with a point is of words, and an empty one of pictures.
    #[must_use]
    pub fn page(mut self, label: impl Into<String>, caption: impl Into<String>, heads: &str) -> Self {
        let named = |head: &str, rows: &str| match head.strip_prefix('.') {
            Some(head) => format!("<th scope=\"col\"{rows} class=\"name\">{head}</th>"),
            None if head.is_empty() => "<th scope=\"col\" aria-hidden=\"true\"></th>".to_owned(),
            None => format!("<th scope=\"col\"{rows}>{head}</th>"),
        };
        let heads: Vec<(&str, Vec<&str>)> = heads
            .split('|')
            .map(|head| {
                head.split_once(':').map_or((head, Vec::new()), |(head, below)| (head, below.split(';').collect()))
            })
            .collect();
        let below: String = heads.iter().flat_map(|(_, below)| below).map(|head| named(head, "")).collect();
        let of = |(head, all): &(&str, Vec<&str>)| match all.len() {
            0 if below.is_empty() => named(head, ""),
            0 => named(head, " rowspan=\"2\""),
            count => format!("<th scope=\"colgroup\" colspan=\"{count}\">{head}</th>"),
        };
        let first: String = heads.iter().map(of).collect();
        self.heads = match below.is_empty() {
            true => format!("<thead><tr>{first}</tr></thead>"),
            false => format!("<thead>\n<tr>{first}</tr>\n<tr>{below}</tr>\n</thead>"),
        };
        (self.label, self.caption) = (label.into(), caption.into());
        self
    }

    /// A row; its first cell is its name.
    pub fn row(&mut self, cells: Vec<GridCell>) {
        self.row_of("", cells);
    }

    /// A row that belongs to the one above.
    pub fn part(&mut self, cells: Vec<GridCell>) {
        self.row_of(" class=\"field\"", cells);
    }

    /// A row of text alone, across all columns of a terminal.
    pub fn line(&mut self, text: impl Into<String>) {
        self.table.text(text);
    }

    fn row_of(&mut self, class: &str, cells: Vec<GridCell>) {
        let texts = cells.iter().filter_map(|cell| cell.text.as_deref()).zip(&self.columns);
        let texts: Vec<String> = texts
            .map(
                |(text, &(side, width))| {
                    if side == '<' { format!("{text:<width$}") } else { format!("{text:>width$}") }
                },
            )
            .collect();
        if !texts.is_empty() {
            self.table.row(texts);
        }
        let mut html = cells.iter().filter_map(|cell| cell.page.as_ref().map(|page| (&cell.attributes, page)));
        if let Some((attributes, name)) = html.next() {
            let rest = html.map(|(attributes, html)| format!("<td{attributes}>{html}</td>")).collect::<String>();
            let _ = writeln!(self.body, "<tr{class}><th scope=\"row\"{attributes}>{name}</th>{rest}</tr>");
        }
    }
}

/// A cell, for a terminal, for a page or for both.
#[derive(Clone, Default)]
pub struct GridCell {
    text: Option<String>,
    page: Option<String>,
    attributes: String,
}

/// A cell that is the same in both forms.
pub fn cell(value: impl Display) -> GridCell {
    let text = value.to_string();
    GridCell { page: Some(escaped(&text)), text: Some(text), attributes: String::new() }
}

/// A cell that a terminal and a page write in different ways.
pub fn either(text: impl Display, page: impl Display) -> GridCell {
    GridCell { text: Some(text.to_string()), page: Some(escaped(page)), attributes: String::new() }
}

/// A cell for a terminal alone.
pub(crate) fn in_text(text: impl Display) -> GridCell {
    GridCell { text: Some(text.to_string()), ..GridCell::default() }
}

/// A cell for a page alone.
pub(crate) fn on_page(page: impl Display) -> GridCell {
    GridCell { page: Some(escaped(page)), ..GridCell::default() }
}

/// A band without a sign; none is nothing.
pub fn band(band: Option<Band>) -> GridCell {
    let of = |between| band.map_or(String::new(), |Band([least, most])| format!("{least:.0}{between}{most:.0}"));
    either(of(".."), of(" … "))
}

/// A row's name, marked if the row is no evidence.
pub fn named(name: &str, is_fitted: bool) -> GridCell {
    let mark = if is_fitted { " *" } else { "" };
    let basis = if is_fitted { " <span class=\"basis fitted\">fitted</span>" } else { "" };
    GridCell {
        text: Some(format!("{name}{mark}")),
        page: Some(format!("{}{basis}", escaped(name))),
        attributes: String::new(),
    }
}

impl GridCell {
    /// With a mark for a terminal, and a colour on a page, that say how the figure stands.
    #[must_use]
    pub fn judged(mut self, standing: Option<Standing>) -> Self {
        let [mark, class] = Standing::marks(standing);
        self.text = self.text.map(|text| text + mark);
        self.with(&format!("class=\"{class}\""))
    }

    /// Judged by whether the figure is as it has to be.
    #[must_use]
    pub fn holds(self, holds: Option<bool>) -> Self {
        self.judged(holds.map(Standing::of_bool))
    }

    /// With the text cut to `columns` columns.
    #[must_use]
    pub fn cut(mut self, columns: usize) -> Self {
        self.text = self.text.map(|text| figures::fitted(&text, columns));
        self
    }

    /// For a page alone.
    #[must_use]
    pub(crate) fn page_alone(self) -> Self {
        Self { text: None, ..self }
    }

    /// With blanks before the text.
    #[must_use]
    pub fn indented(mut self) -> Self {
        self.text = self.text.map(|text| format!("  {text}"));
        self
    }

    /// As a terminal has it.
    pub(crate) fn as_text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// With attributes on a page.
    #[must_use]
    pub fn with(mut self, attributes: &str) -> Self {
        self.attributes = format!(" {attributes}");
        self
    }

    /// With HTML around what a page has.
    #[must_use]
    pub fn around(mut self, [before, after]: [&str; 2]) -> Self {
        self.page = self.page.map(|page| format!("{before}{page}{after}"));
        self
    }

    /// As code on a page.
    #[must_use]
    pub fn code(self) -> Self {
        self.around(["<code>", "</code>"])
    }
}
