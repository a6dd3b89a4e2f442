//! Answers to reports, as `why` and `state` show them.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use framewright::{Gfp, Mechanisms};
use framewright_report::answer::{Answer, answer};
use framewright_report::decision::{Query, decide};
use framewright_report::rebuild::{End, rebuild};
use framewright_report::report::Report;
use framewright_report::trial::try_again;
use framewright_trace::flags::KernelVersion;
use serde::Serialize;

use super::output::{Format, print, printable};
use super::{file, folder};
use framewright_lab::mechanisms;
use framewright_lab::why::{JSON, Page};

/// The request, where a report names none or another one is to be tried.
#[derive(Args, Clone)]
#[command(next_help_heading = "The request")]
pub(super) struct RequestArgs {
    /// Order of the request, instead of the report's.
    #[arg(long, value_name = "ORDER", value_parser = clap::value_parser!(u8).range(..=30))]
    order: Option<u8>,
    /// Flags of the request, as GFP_KERNEL|__GFP_NORETRY, instead of the report's.
    #[arg(long, value_name = "FLAGS", value_parser = flags)]
    gfp: Option<Flags>,
    /// Node that may serve the request, which no report names for __GFP_THISNODE.
    #[arg(long, value_name = "NODE", value_parser = clap::value_parser!(u32).range(..1024))]
    node: Option<u32>,
    /// Version of the kernel, as 4.19, instead of the report's.
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,
}

/// Flags as the user names them. Bits mean what they mean in the report's kernel.
#[derive(Clone, Copy)]
enum Flags {
    Named(Gfp),
    Bits(u32),
}

fn flags(text: &str) -> Result<Flags, String> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).map(Flags::Bits).map_err(|_| format!("`{text}` is no number of flags"));
    }
    let named = Gfp::parse(text).map(Flags::Named);
    named.map_err(|part| format!("`{part}` is no flag; flags are Linux's names, as GFP_KERNEL|__GFP_ZERO, or 0x20"))
}

impl RequestArgs {
    /// Puts what the user knows into a report.
    ///
    /// # Errors
    /// The report has no such node.
    pub(super) fn amend(&self, report: &mut Report) -> anyhow::Result<()> {
        if let Some(kernel) = self.kernel {
            report.memory.kernel = Some(kernel);
            report.release = Some(kernel.to_string());
        }
        if self.order.is_some() || self.gfp.is_some() {
            let asked = report.asked.get_or_insert_default();
            asked.order = self.order.or(asked.order).or(Some(0));
            if let Some(flags) = self.gfp {
                (asked.names, asked.number) = match flags {
                    Flags::Named(gfp) => (Some(gfp.to_string()), None),
                    Flags::Bits(bits) => (None, Some(bits)),
                };
            } else if asked.names.is_none() && asked.number.is_none() {
                asked.names = Some("GFP_KERNEL".to_owned());
            }
        }
        if let (Some(node), Some(asked)) = (self.node, report.asked.as_mut()) {
            if !report.memory.zones.is_empty() && report.memory.zones.iter().all(|zone| zone.node != node) {
                bail!("the report has no zone of node {node}");
            }
            asked.nodemask = Some(vec![node]);
        }
        Ok(())
    }
}

/// What is shown of the answers.
#[derive(Args, Clone)]
pub(super) struct AnswerArgs {
    /// Presets and switches under which this allocator tries the request, as `default`, or a TOML file; repeat for more
    /// [default: default, for at most 50 reports].
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Vec<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    /// Write the state and the request as a list for `framewright ops`.
    #[arg(long, value_name = "FILE")]
    ops: Option<PathBuf>,
    /// Write a page for a ticket, index.html, and the answers as why.json into a folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// The document of the JSON form.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    reports: &'a [Answer],
}

/// Most reports of one call that are tried on our allocator without `-m`.
const TRIED: usize = 50;
/// The mark of a list that this command wrote.
const LIST: &str = "# framewright why";

impl AnswerArgs {
    /// Checks outputs and mechanisms before the work.
    pub(super) fn prepare(&self) -> anyhow::Result<Vec<(String, Mechanisms)>> {
        if let Some(folder) = &self.report {
            folder::prepare(folder, &[folder::PAGE, JSON])?;
        }
        if let Some(path) = &self.ops {
            file::check(path, file::Over::Ours(LIST))?;
        }
        let named: Vec<String> =
            if self.mechanisms.is_empty() { vec!["default".to_owned()] } else { self.mechanisms.clone() };
        named.into_iter().map(|name| mechanisms::parse(&name).map(|mechanisms| (name, mechanisms))).collect()
    }

    /// Answers reports and shows the answers.
    pub(super) fn answer_all(&self, reports: &[Report], command: &str) -> anyhow::Result<()> {
        let under = self.prepare()?;
        if self.ops.is_some() && reports.len() != 1 {
            bail!("--ops writes the list of one report, and there are {}: --only NUMBER chooses", reports.len());
        }
        // A flood of reports is read, not tried, unless the user asks for it.
        let under = if reports.len() > TRIED && self.mechanisms.is_empty() { Vec::new() } else { under };
        let answers: Vec<Answer> = reports.iter().map(|report| tried(report, &under)).collect();
        let json = serde_json::to_string_pretty(&Document { schema: "framewright-why/1", reports: &answers })? + "\n";
        match self.format {
            Format::Json => print(&json)?,
            Format::Text => print(&text(&answers))?,
        }
        if let (Some(path), [report]) = (&self.ops, reports) {
            file::replace(path, &list(report)?)?;
        }
        if let Some(folder) = &self.report {
            let page = Page { command, answers: &answers }.render()?;
            folder::write(folder, &[(folder::PAGE, &page), (JSON, &json)])?;
            if self.format == Format::Text {
                print(&folder::told(folder))?;
            }
        }
        Ok(())
    }
}

/// Answers a report, and tries its request under each set of mechanisms.
pub(super) fn tried(report: &Report, under: &[(String, Mechanisms)]) -> Answer {
    let mut answer = answer(report);
    let case = answer.decision.as_ref().and_then(|decision| decision.cases.first()).cloned();
    if let (Some(query), Some(case)) = (Query::of(report), case) {
        let tries = under.iter().map(|(name, mechanisms)| try_again(&report.memory, &query, &case, name, *mechanisms));
        answer.tries = tries.collect();
    }
    answer
}

pub(super) fn text(answers: &[Answer]) -> String {
    let texts: Vec<String> = answers.iter().map(|answer| printable(&answer.to_string()) + "\n").collect();
    texts.join("\n")
}

/// Returns the list of operations of a report.
fn list(report: &Report) -> anyhow::Result<String> {
    let query = Query::of(report);
    let case = query.as_ref().and_then(|query| decide(&report.memory, query).cases.into_iter().next());
    let request = query.as_ref().zip(case.as_ref());
    let rebuilt = rebuild(&report.memory, request, Mechanisms::DEFAULT, End::Best).map_err(anyhow::Error::msg)?;
    let mut text = format!("{LIST}: the state of a report, rebuilt; what it does not say is in the request's favour\n");
    for (zone, range) in &rebuilt.zones {
        text += &format!("# zone {zone} of the report lies at {range}\n");
    }
    Ok(text + &rebuilt.scenario.to_string())
}
