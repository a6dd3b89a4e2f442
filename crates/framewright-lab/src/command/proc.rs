//! `framewright proc`: the files that Linux shows of its allocator, of a simulated run or of a live process.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use framewright::NodeId;
use framewright::report::Source;
use framewright_bench::command::Bar;
use framewright_rt::ReportFile;
use framewright_rt::export::{fetch, fetch_nodes, online};
use framewright_sim::workload::run_and_look;
use framewright_trace::output::{self, Access, Folder};

use super::output::print;
use super::runs::RunArgs;

/// Print what Linux has in /proc about its allocator, of a simulated run or of a live process.
///
/// A simulated run is seen at the end of its window, while its CPUs are at work. A live process is one that has
/// exported its arena (`Arena::export`) to a socket.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  framewright proc zoneinfo --workload page-fault1 --cpus 8
      at the end of a simulated run; the options are those of framewright sim
  framewright proc buddyinfo --from pool.sock
      of the process that shows itself there
  framewright proc numastat --node 0 --from pool.sock
      where the requests of node 0 were served
  framewright proc tree out --from pool.sock --every 1s
      keeps out/proc and out/sys up to date, for readers of files: node_exporter --path.procfs out/proc

docs/stats.md says what each line means."
)]
pub(crate) struct Proc {
    #[command(subcommand)]
    tree: Option<ProcCommand>,
    /// Which file.
    #[arg(value_enum, required = true)]
    file: Option<Name>,
    /// Node whose numastat or vmstat is meant [default: numastat of every node; vmstat of all together].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..NodeId::LIMIT as i64))]
    node: Option<u8>,
    #[command(flatten)]
    whose: Whose,
}

#[derive(Subcommand)]
enum ProcCommand {
    Tree(Tree),
}

/// Write all files into a folder, as proc/zoneinfo, sys/devices/system/node/node0/numastat and so on.
///
/// Each is replaced as a whole. When the process that they are from is gone, they are removed: numbers that nobody
/// keeps up to date would look like those of a quiet machine.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright proc tree out --workload page-fault1 --cpus 8
      as the files stand at the end of a simulated run
  framewright proc tree out --from pool.sock --every 1s
      of a live process, once a second, for as long as it lives")]
struct Tree {
    /// The folder.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write them again and again, after pauses of this length, until the process is gone: 500ms, 1s, 5m.
    #[arg(long, value_name = "TIME", requires = "from", value_parser = interval)]
    every: Option<Duration>,
    #[command(flatten)]
    whose: Whose,
}

/// A file by its name, or several of that name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Free blocks by order.
    Buddyinfo,
    /// Sizes, watermarks, counters and per-CPU lists of each zone.
    Zoneinfo,
    /// Sums over all zones, and events.
    Vmstat,
    /// Where requests were served, of each node.
    Numastat,
    /// Free blocks by order and mobility, pageblocks by mobility.
    Pagetypeinfo,
    /// Share of the free memory that a request of each order cannot use.
    #[value(name = "unusable_index")]
    UnusableIndex,
    /// Why a request of each order would fail.
    #[value(name = "extfrag_index")]
    ExtfragIndex,
}

/// Where the files come from.
#[derive(Args)]
struct Whose {
    /// Socket at which a live process shows its arena.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["machine", "workload", "mechanisms", "cpus", "seed", "seconds", "warm_up", "schedule"])]
    from: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Of a simulated run")]
    runs: RunArgs,
}

/// Files with what they say.
type ProcTexts = Vec<(ReportFile, String)>;

/// Which files are to be read.
struct WantedTexts {
    /// These.
    files: Vec<ReportFile>,
    /// And these of every node that there is.
    of_each_node: Option<fn(NodeId) -> Vec<ReportFile>>,
}

impl WantedTexts {
    fn on(&self, nodes: &[NodeId]) -> Vec<ReportFile> {
        let of_nodes = self.of_each_node.iter().flat_map(|of_node| nodes.iter().flat_map(|&node| of_node(node)));
        self.files.iter().copied().chain(of_nodes).collect()
    }
}

impl Proc {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(ProcCommand::Tree(tree)) = &self.tree {
            return tree.run();
        }
        let name = self.file.context("which file?")?;
        if self.node.is_some() && !matches!(name, Name::Numastat | Name::Vmstat) {
            bail!("--node is for numastat and vmstat: the other files tell about all nodes; leave it out");
        }
        let texts = self.whose.texts(&name.wanted(self.node.map(NodeId)))?;
        let one = |(file, text): &(ReportFile, String)| match (name, self.node) {
            (Name::Numastat, None) => format!("==> {file} <==\n{text}"),
            _ => text.clone(),
        };
        print(&texts.iter().map(one).collect::<Vec<_>>().join("\n"))
    }
}

impl Name {
    /// The text of a node or of the machine.
    fn wanted(self, node: Option<NodeId>) -> WantedTexts {
        let file = match (self, node) {
            (Name::Buddyinfo, _) => ReportFile::BuddyInfo,
            (Name::Zoneinfo, _) => ReportFile::ZoneInfo,
            (Name::Pagetypeinfo, _) => ReportFile::PageTypeInfo,
            (Name::UnusableIndex, _) => ReportFile::UnusableIndex,
            (Name::ExtfragIndex, _) => ReportFile::ExtfragIndex,
            (Name::Vmstat, None) => ReportFile::VmStat,
            (Name::Vmstat, Some(node)) => ReportFile::NodeVmStat(node),
            (Name::Numastat, Some(node)) => ReportFile::NumaStat(node),
            (Name::Numastat, None) => {
                return WantedTexts { files: Vec::new(), of_each_node: Some(|node| vec![ReportFile::NumaStat(node)]) };
            }
        };
        WantedTexts { files: vec![file], of_each_node: None }
    }
}

impl Whose {
    fn texts(&self, wanted: &WantedTexts) -> anyhow::Result<ProcTexts> {
        let Some(socket) = &self.from else { return self.simulated(wanted) };
        let nodes = wanted.of_each_node.map(|_| fetch_nodes(socket)).transpose()?;
        let files = wanted.on(&nodes.unwrap_or_default());
        files.into_iter().map(|file| Ok((file, fetch(socket, file)?))).collect()
    }

    /// The texts at the end of a simulated run's window.
    fn simulated(&self, wanted: &WantedTexts) -> anyhow::Result<ProcTexts> {
        let machine = self.runs.machine()?;
        let workload = self.runs.workload(&[])?;
        let (&[mechanisms], &[cpus]) = (&*self.runs.mechanisms()?, &*self.runs.cpus(&machine)?) else {
            bail!("the files are those of one run: name one set of mechanisms and one number of CPUs");
        };
        let job = self.runs.job(&workload, mechanisms, cpus);
        let bar = Bar::new()?;
        let mut texts = None;
        let mut progress = |progress: framewright_sim::workload::Progress| {
            bar.show("1 run", progress.done as f64 / progress.total.max(1) as f64);
        };
        run_and_look(&machine.model(), &job, &mut progress, &mut |source| texts = Some(texts_of(source, wanted)))?;
        texts.unwrap_or_else(|| Err(anyhow!("the run has no window at whose end one could look")))
    }
}

fn texts_of(source: &dyn Source, wanted: &WantedTexts) -> anyhow::Result<ProcTexts> {
    let nodes = online(source);
    let text = |file: ReportFile| {
        let numbers: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
        let missing = || format!("there is no {file}: nodes are {}", numbers.join(", "));
        Ok((file, file.text(source).with_context(missing)?))
    };
    wanted.on(&nodes).into_iter().map(text).collect()
}

impl Tree {
    fn run(&self) -> anyhow::Result<()> {
        let of_each_node: fn(NodeId) -> Vec<ReportFile> = |node| ReportFile::of_node(node).to_vec();
        let all = WantedTexts { files: ReportFile::OF_ALL.to_vec(), of_each_node: Some(of_each_node) };
        if self.every.is_some() && self.whose.from.is_none() {
            bail!(
                "--every is for a live process, named by --from SOCKET: a simulated run is over when its files are written"
            );
        }
        let texts = self.whose.texts(&all)?;
        self.write(&texts)?;
        print(&format!("{} files below {}\n", texts.len(), self.folder.display()))?;
        let Some(pause) = self.every else { return Ok(()) };
        loop {
            thread::sleep(pause);
            match self.whose.texts(&all) {
                Ok(texts) => self.write(&texts)?,
                Err(error) => {
                    texts.iter().for_each(|(file, _)| drop(fs::remove_file(self.folder.join(file.path()))));
                    return Err(error.context("the files were removed"));
                }
            }
        }
    }

    fn write(&self, texts: &ProcTexts) -> anyhow::Result<()> {
        texts.iter().try_for_each(|(file, text)| {
            let path = self.folder.join(file.path());
            replace(&path, text).with_context(|| format!("cannot write {}", path.display()))
        })
    }
}

/// Puts a file in its place in one step: a reader sees the old one or the new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        Folder::make(folder, Access::Shared)?;
    }
    output::write(path, Access::Shared, text.as_bytes())
}

fn interval(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return Err("is no time: write 500ms, 1s or 5m".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "is no time: write 500ms, 1s or 5m".to_owned())?;
    match number.checked_mul(unit) {
        Some(milliseconds @ 10..=86_400_000) => Ok(Duration::from_millis(milliseconds)),
        _ => Err("has to be 10ms at least and a day at most".to_owned()),
    }
}
