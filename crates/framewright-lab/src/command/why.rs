//! `framewright why`: why a request of a kernel failed, from the report that the kernel printed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use framewright_report::read::Reader;
use framewright_report::report::Report;

use super::answers::{AnswerArgs, RequestArgs, text, tried};
use super::output::{Format, print, quoted};
use super::watch;

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
    /// Follow the kernel's log, /dev/kmsg, and answer each new report. With a FILE, such as a pipe, this one, until it
    /// ends.
    #[arg(long, conflicts_with_all = ["ops", "report"])]
    watch: bool,
    /// Answer only this report, counted from 1 over all files.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    only: Option<u64>,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    answers: AnswerArgs,
}

impl Why {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.watch {
            return self.follow();
        }
        if self.files.is_empty() && io::stdin().is_terminal() {
            bail!("name a log, or send one: dmesg | framewright why; --watch follows the kernel's");
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
        reports.iter_mut().try_for_each(|report| self.request.amend(report))?;
        let names: Vec<String> = files.iter().map(|path| quoted(&path.display().to_string())).collect();
        self.answers.answer_all(&reports, &format!("framewright why {}", names.join(" ")))
    }

    /// Follows a log.
    fn follow(&self) -> anyhow::Result<()> {
        let under = self.answers.prepare()?;
        let path = match &self.files[..] {
            [] => Path::new(watch::KMSG),
            [path] => path,
            _ => bail!("--watch follows one log"),
        };
        watch::follow(path, &mut |mut report| {
            self.request.amend(&mut report)?;
            let answer = tried(&report, &under);
            match self.answers.format {
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
