//! `framewright why`: why a request of a kernel failed, from the report that the kernel printed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use framewright::{Gfp, Mechanisms};
use framewright_report::answer::{Answer, answer};
use framewright_report::decision::Query;
use framewright_report::read::Reader;
use framewright_report::rebuild::{End, rebuild};
use framewright_report::report::{Asked, Report};
use framewright_report::trial::try_again;
use framewright_trace::flags::KernelVersion;
use serde::Serialize;

use super::output::{Format, print, printable};
use super::{file, folder, watch};
use framewright_lab::mechanisms;
use framewright_lab::why::{JSON, Page};

/// Say why an allocation failed, from the kernel's report: zone by zone to the frame, and what would have helped.
///
/// Reads allocation failures, OOM kills and SysRq-m of every kernel since 2.6.32, out of whole logs and pasted texts.
#[derive(Args)]
#[command(after_help = "Examples:
  dmesg | framewright why
      every report in the kernel's log
  framewright why kern.log -m default -m linux-6.1
      whether this allocator would have served the requests
  framewright why sysrq-m.txt --order 4 --gfp GFP_KERNEL
      whether a state of memory would serve a request
  framewright why kern.log --only 2 --report ticket
      a page for a ticket, with the zones drawn against their marks
  framewright why --watch
      follows the kernel's log, and answers each report when it comes

docs/why.md says how to read the answer.")]
pub(crate) struct Why {
    /// Logs, or texts with reports; - is standard input, which is read if there is none.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Follow the kernel's log, /dev/kmsg, and answer each new report. With a FILE, follow this one to its end.
    #[arg(long, conflicts_with_all = ["ops", "report"])]
    watch: bool,
    /// Answer only this report, counted from 1 over all files.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    only: Option<u64>,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    shown: Shown,
}

/// The request, where a report names none or another one is to be tried.
#[derive(Args, Clone)]
#[command(next_help_heading = "The request")]
pub(super) struct RequestArgs {
    /// Order of the request, instead of the report's.
    #[arg(long, value_name = "ORDER", value_parser = clap::value_parser!(u8).range(..=30))]
    order: Option<u8>,
    /// Flags of the request, as GFP_KERNEL|__GFP_NORETRY, instead of the report's.
    #[arg(long, value_name = "FLAGS", value_parser = gfp)]
    gfp: Option<Gfp>,
    /// Node that may serve the request, which no report names for __GFP_THISNODE.
    #[arg(long, value_name = "NODE", value_parser = clap::value_parser!(u32).range(..1024))]
    node: Option<u32>,
    /// Version of the kernel, where the report does not tell it, as 4.19.
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,
}

fn gfp(text: &str) -> Result<Gfp, String> {
    Gfp::parse(text).map_err(|part| format!("`{part}` is no flag; flags are Linux's names, as GFP_KERNEL|__GFP_ZERO"))
}

impl RequestArgs {
    /// Puts what the user knows into a report.
    pub(super) fn amend(&self, report: &mut Report) {
        if let Some(kernel) = self.kernel {
            report.memory.kernel = Some(kernel);
            report.release.get_or_insert_with(|| kernel.to_string());
        }
        if self.order.is_some() || self.gfp.is_some() {
            let asked = report.asked.get_or_insert_default();
            asked.order = self.order.or(asked.order).or(Some(0));
            if let Some(gfp) = self.gfp {
                let Asked { names, number, .. } = Asked::new(gfp, 0);
                (asked.names, asked.number) = (names, number);
            } else if asked.names.is_none() && asked.number.is_none() {
                asked.names = Some("GFP_KERNEL".to_owned());
            }
        }
        if let (Some(node), Some(asked)) = (self.node, report.asked.as_mut()) {
            asked.nodemask = Some(vec![node]);
        }
    }
}

/// What is shown of the answers.
#[derive(Args, Clone)]
pub(super) struct Shown {
    /// Presets and switches under which this allocator tries the request, as `default`, or a TOML file; repeat for more
    /// [default: default].
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Vec<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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

/// The mark of a list that this command wrote.
const LIST: &str = "# framewright why";

impl Shown {
    /// Checks outputs and mechanisms before the work.
    pub(super) fn prepare(&self) -> anyhow::Result<Vec<(String, Mechanisms)>> {
        if let Some(folder) = &self.report {
            folder::prepare(folder, &[folder::PAGE, JSON])?;
        }
        if let Some(path) = &self.ops {
            file::check(path, LIST)?;
        }
        let named: Vec<String> =
            if self.mechanisms.is_empty() { vec!["default".to_owned()] } else { self.mechanisms.clone() };
        named.into_iter().map(|name| mechanisms::parse(&name).map(|mechanisms| (name, mechanisms))).collect()
    }

    /// Answers reports and shows the answers.
    pub(super) fn show(&self, reports: &[Report], command: &str) -> anyhow::Result<()> {
        let under = self.prepare()?;
        if self.ops.is_some() && reports.len() != 1 {
            bail!("--ops writes the list of one report, and there are {}: --only NUMBER chooses", reports.len());
        }
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
fn tried(report: &Report, under: &[(String, Mechanisms)]) -> Answer {
    let mut answer = answer(report);
    let case = answer.decision.as_ref().and_then(|decision| decision.cases.first()).cloned();
    if let (Some(query), Some(case)) = (Query::of(report), case) {
        let tries = under.iter().map(|(name, mechanisms)| try_again(&report.memory, &query, &case, name, *mechanisms));
        answer.tries = tries.collect();
    }
    answer
}

fn text(answers: &[Answer]) -> String {
    let texts: Vec<String> = answers.iter().map(|answer| printable(&answer.to_string()) + "\n").collect();
    texts.join("\n")
}

/// Returns the list of operations of a report.
fn list(report: &Report) -> anyhow::Result<String> {
    let query = Query::of(report);
    let case = query.as_ref().and_then(|query| {
        framewright_report::decision::decide(&report.memory, query).cases.into_iter().next()
    });
    let request = query.as_ref().zip(case.as_ref());
    let rebuilt = rebuild(&report.memory, request, Mechanisms::DEFAULT, End::Best).map_err(anyhow::Error::msg)?;
    let mut text = format!("{LIST}: the state of a report, rebuilt; what it does not say is in the request's favour\n");
    for (zone, range) in &rebuilt.zones {
        text += &format!("# zone {zone} of the report lies at {range}\n");
    }
    Ok(text + &rebuilt.scenario.to_string())
}

impl Why {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.watch {
            return self.follow();
        }
        let mut reports = Vec::new();
        let files = if self.files.is_empty() { vec![PathBuf::from("-")] } else { self.files.clone() };
        for path in &files {
            read(path, &mut reports).with_context(|| format!("cannot read {}", path.display()))?;
        }
        if reports.is_empty() {
            let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
            bail!(
                "{} has no report: none of the lines `page allocation failure`, `invoked oom-killer` or `Mem-Info`; \
                 dmesg shows the kernel's log, and `echo m >/proc/sysrq-trigger` makes it print one",
                names.join(", ")
            );
        }
        if let Some(number) = self.only {
            let found = reports.len();
            let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
            if index >= found {
                bail!("there is no report {number}; {found} were found");
            }
            reports = vec![reports.swap_remove(index)];
        }
        reports.iter_mut().for_each(|report| self.request.amend(report));
        let names: Vec<String> = files.iter().map(|path| super::output::quoted(&path.display().to_string())).collect();
        self.shown.show(&reports, &format!("framewright why {}", names.join(" ")))
    }

    /// Follows a log.
    fn follow(&self) -> anyhow::Result<()> {
        let under = self.shown.prepare()?;
        let path = match &self.files[..] {
            [] => Path::new(watch::KMSG),
            [path] => path,
            _ => bail!("--watch follows one log"),
        };
        watch::follow(path, &mut |mut report| {
            self.request.amend(&mut report);
            let answer = tried(&report, &under);
            match self.shown.format {
                Format::Text => print(&text(&[answer])),
                Format::Json => print(&(serde_json::to_string(&answer)? + "\n")),
            }
        })
    }
}

/// Reads the reports of a file.
fn read(path: &Path, reports: &mut Vec<Report>) -> io::Result<()> {
    let input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
    let mut reader = Reader::default();
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without an end does not fill memory: it is read in parts.
        let read = input.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        reader.add(String::from_utf8_lossy(&line).trim_end_matches('\n'), reports);
        if reports.len() > REPORTS {
            return Err(io::Error::other(format!("it has more than {REPORTS} reports; split it")));
        }
    }
    reader.finish(reports);
    Ok(())
}

/// Longest part of a line that is read at once, in bytes.
const LINE_LIMIT: u64 = 1 << 20;
/// Most reports of one call.
const REPORTS: usize = 10_000;
