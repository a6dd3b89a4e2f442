//! `framewright reproduce`: published tables beside ours.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use framewright_bench::command::Bar;
use framewright_lab::experiments::overview::{beside_overview, overview_page};
use framewright_lab::experiments::{All, Ask, Experiment, Made, all};
use framewright_lab::reproduce::check::all_hold;

use super::ended::Violated;
use super::output::{Format, print, quoted};
use super::{file, folder};

/// Where a command without arguments writes its pages.
const REPORT: &str = "report";

/// First line of a file of bands: the command that recorded it.
const BANDS: &str = "# Recorded by: framewright reproduce all";

/// Make a published table again on the simulated machine: theirs, ours, why, and what of it is fitted.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright reproduce all --quick --report report
      all five at a glance, and a page for each: what `framewright` does without arguments; some 40 s of two CPUs
  framewright reproduce zone-lock
      page faults on 112 CPUs under six kernels of 2018 and under our default, with bands
  framewright reproduce zone-lock --quick
      the table alone without bands, in some seconds
  framewright reproduce numa-stats
      an allocation and its free on 88 CPUs, by how much of the NUMA counters a CPU keeps
  framewright reproduce zone-layout
      aim7 on 120 CPUs with the lock on the lists' cache line and behind them, and from how many CPUs on that matters
  framewright reproduce irq-safe
      a page's cycles with interrupts held off and without, packets whose pages interrupts allocate; some of it natively
  framewright reproduce fragmentation
      what mixes mobilities, and who gets huge pages, under four kernels of 2018 and our default, with ten seeds each
  framewright reproduce zone-lock --format json --report out
      for programs; and a page with plots, in out/index.html

Exit code of one experiment: 0 if every check holds, 1 if not, or if one could not be seen, as some cannot in a quick run. \
Of all: 1 if a figure has left its band (docs/reproduce.md). The same command prints the same bytes, but for \
what irq-safe measures natively. docs/lab/fidelity.md says what a reproduced table is worth.")]
pub(crate) struct Reproduce {
    /// Which table.
    #[arg(value_enum)]
    experiment: Which,
    /// Shorter and fewer runs, and none with the machine's numbers changed: no bands. Of fragmentation: one seed in one
    /// configuration.
    #[arg(long)]
    quick: bool,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Memory of a socket, in MiB; of fragmentation alone. [default: 1024]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..=65536))]
    mib: Option<u32>,
    /// Seeds, from the first on; of fragmentation alone. [default: 10; 1 if quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a page with plots and tables, and the JSON, into this folder. Runs on fewer CPUs are added to zone-lock
    /// for it.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Record the bands of `all --quick` anew into this file: with several seeds, and with each fitted number a tenth
    /// less and more.
    #[arg(long, value_name = "FILE", requires = "quick", conflicts_with_all = ["report", "mib", "seeds", "format", "seed"])]
    bands: Option<PathBuf>,
}

/// All tables, or one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    One(Experiment),
}

impl ValueEnum for Which {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Which; 6] = [
            Which::All,
            Which::One(Experiment::ZoneLock),
            Which::One(Experiment::ZoneLayout),
            Which::One(Experiment::NumaStats),
            Which::One(Experiment::IrqSafe),
            Which::One(Experiment::Fragmentation),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::All => Some(clap::builder::PossibleValue::new("all").help("The five, at a glance")),
            Self::One(experiment) => experiment.to_possible_value(),
        }
    }
}

impl Reproduce {
    /// Returns the options of a command without arguments.
    pub(crate) fn at_a_glance() -> Self {
        Self {
            experiment: Which::All,
            quick: true,
            seed: 1,
            mib: None,
            seeds: None,
            format: Format::Text,
            report: Some(PathBuf::from(REPORT)),
            bands: None,
        }
    }

    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match (self.experiment, &self.bands) {
            (Which::All, Some(file)) => Self::record(file),
            (Which::All, None) => self.all(),
            (Which::One(_), Some(_)) => {
                bail!("--bands records those of all: framewright reproduce all --quick --bands FILE")
            }
            (Which::One(experiment), None) => self.one(experiment),
        }
    }

    fn one(&self, experiment: Experiment) -> anyhow::Result<()> {
        self.prepare()?;
        let bar = Bar::new()?;
        let mut progress = |done, total: u64| bar.show(experiment.name(), done as f64 / total.max(1) as f64);
        let made = experiment.make(&self.ask(), &self.command(experiment.name()), &mut progress)?;
        drop(bar);
        if let (Some(folder), Some(page)) = (&self.report, &made.page) {
            let json = format!("{}.json", experiment.name());
            folder::write(folder, &[(folder::PAGE, page), (&json, &made.json)])?;
        }
        match self.format {
            Format::Text => print(&(made.text + &self.written()))?,
            Format::Json => print(&made.json)?,
        }
        if all_hold(&made.checks) { Ok(()) } else { Err(Violated.into()) }
    }

    fn all(&self) -> anyhow::Result<()> {
        if self.mib.is_some() || self.seeds.is_some() {
            bail!("--mib and --seeds are for fragmentation alone: framewright reproduce fragmentation");
        }
        self.prepare()?;
        let bar = Bar::new()?;
        let progress = |experiment: Experiment, share| bar.show(experiment.name(), share);
        let alone = |experiment: Experiment| self.command(experiment.name());
        let made = all::run(&Experiment::ALL, &self.ask(), alone, progress)?;
        drop(bar);
        let all = All::new(&made, &self.command("all"), (self.quick, self.seed))?;
        let json = serde_json::to_string_pretty(&all)? + "\n";
        if let Some(folder) = &self.report {
            self.write_all(folder, (&all, &json), &made)?;
        }
        match self.format {
            Format::Text => print(&(all.to_string() + &self.written()))?,
            Format::Json => print(&json)?,
        }
        let holds = all.holds() && (self.quick || made.iter().all(|made| all_hold(&made.checks)));
        if holds { Ok(()) } else { Err(Violated.into()) }
    }

    /// The page that leads to the others, they, and all as JSON.
    fn write_all(&self, folder: &Path, (all, json): (&All, &str), made: &[Made]) -> anyhow::Result<()> {
        let index = overview_page(all).context("the page")?;
        let mut files = vec![(folder::PAGE.to_owned(), index), ("all.json".to_owned(), json.to_owned())];
        for made in made {
            let name = made.experiment.name();
            files.extend(made.page.iter().map(|page| (format!("{name}.html"), beside_overview(page))));
            files.push((format!("{name}.json"), made.json.clone()));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
        folder::write(folder, &files)
    }

    fn record(file: &Path) -> anyhow::Result<()> {
        file::check(file, file::Over::Ours(BANDS))?;
        let bar = Bar::new()?;
        let bands = all::record(&Experiment::ALL, |experiment, share| bar.show(experiment.name(), share))?;
        drop(bar);
        file::replace(file, &bands.to_file()?)
    }

    fn ask(&self) -> Ask<'static> {
        let (quick, page, seed) = (self.quick, self.report.is_some(), self.seed);
        Ask { quick, page, seed, mib: self.mib, seeds: self.seeds, change: None }
    }

    /// Makes the folder of the report first, so that a run whose result could not be written is not begun.
    fn prepare(&self) -> anyhow::Result<()> {
        let Some(folder) = &self.report else { return Ok(()) };
        let names = match self.experiment {
            Which::One(experiment) => vec![folder::PAGE.to_owned(), format!("{}.json", experiment.name())],
            Which::All => {
                let of = |experiment: &Experiment| ["html", "json"].map(|end| format!("{}.{end}", experiment.name()));
                let both = Experiment::ALL.iter().flat_map(of);
                [folder::PAGE.to_owned(), "all.json".to_owned()].into_iter().chain(both).collect()
            }
        };
        folder::prepare(folder, &names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Where the page is, if there is one.
    fn written(&self) -> String {
        self.report.iter().map(|folder| folder::told(folder)).collect()
    }

    /// The command that prints the same of an experiment, or of all.
    fn command(&self, experiment: &str) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let mib = self.mib.map_or(String::new(), |mib| format!(" --mib {mib}"));
        let seeds = self.seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
        let json = if self.format == Format::Json { " --format json" } else { "" };
        let report = self.report.iter().map(|folder| format!(" --report {}", quoted(&folder.display().to_string())));
        format!(
            "framewright reproduce {experiment}{quick}{mib}{seeds} --seed {}{json}{}",
            self.seed,
            report.collect::<String>()
        )
    }
}
