//! The answers of `framewright why` as a page for a ticket.
//!
//! The page says what the text says, and draws each zone that was asked: its free frames as a bar, of which a part does
//! not count, against the frames that the request must leave and the zone's marks.

use framewright_report::answer::Answer;
use framewright_report::decision::{Case, ZoneCase};
use framewright_table::figures::thousands;
use minijinja::value::Serde;
use serde::Serialize;

use crate::html::environment;

/// Name of the answers' document beside the page.
pub const JSON: &str = "why.json";

/// Content of a page about reports.
pub struct Page<'a> {
    /// The command that makes this page.
    pub command: &'a str,
    /// The answers.
    pub answers: &'a [Answer],
}

/// All that the template names.
#[derive(Serialize)]
struct Content<'a> {
    command: &'a str,
    sections: Vec<Section<'a>>,
}

#[derive(Serialize)]
struct Section<'a> {
    answer: &'a Answer,
    head: String,
    text: String,
    bars: Vec<Bar>,
    tries: Vec<(String, String)>,
}

/// A zone as a bar. Lengths are in units of the drawing, of which a bar has [`WIDTH`].
#[derive(Serialize)]
struct Bar {
    zone: String,
    /// Free frames that count.
    counted: f64,
    /// Free frames that do not count, after those that do.
    excluded: f64,
    /// What the request must leave.
    needed: f64,
    /// The zone's mark.
    mark: f64,
    free: String,
    left_out: String,
    must_leave: String,
    mark_is: String,
    answer: String,
}

/// Units of a bar.
const WIDTH: f64 = 600.0;

impl Bar {
    fn of(zone: &ZoneCase) -> Bar {
        let account = &zone.account;
        let left_out = account.of_the_block + account.highatomic.most + account.cma.most;
        let needed = account.keep + account.reserve.most;
        let most = account.free.max(needed).max(account.mark).max(1) as f64;
        let at = |frames: u64| frames as f64 / most * WIDTH;
        let counted = account.free.saturating_sub(left_out);
        Bar {
            zone: format!("{} {}", zone.node, zone.name),
            counted: at(counted),
            excluded: at(account.free) - at(counted),
            needed: at(needed),
            mark: at(account.mark),
            free: thousands(account.free),
            left_out: thousands(left_out.min(account.free)),
            must_leave: thousands(needed),
            mark_is: thousands(account.mark),
            answer: zone.in_words(),
        }
    }
}

impl Page<'_> {
    /// The page.
    ///
    /// # Errors
    /// The template does not fit the data, which is a mistake in this crate.
    pub fn render(&self) -> Result<String, minijinja::Error> {
        let sections = self.answers.iter().map(|answer| {
            let text = answer.to_string();
            let case = answer.decision.as_ref().and_then(|decision| decision.cases.first());
            Section {
                answer,
                head: text.lines().next().unwrap_or_default().to_owned(),
                bars: case.into_iter().flat_map(Case::asked).map(Bar::of).collect(),
                tries: answer.tries.iter().map(|tried| (tried.mechanisms.clone(), tried.in_words())).collect(),
                text,
            }
        });
        let content = Content { command: self.command, sections: sections.collect() };
        environment()?.get_template("why.html")?.render(Serde(content))
    }
}
