//! `framewright top`: a live view.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use framewright_lab::top::terminal::{self, tell};
use framewright_lab::top::{Feed, Kernel, Screen, Simulation, Socket, Theme, TimeBase, Told, draw, frame};
use framewright_sim::workload::Job;

use super::output::print;
use super::runs::RunArgs;

/// Samples of a simulated run before its only frame, unless said otherwise.
const FRAMES: f64 = 10.0;

/// Look at a page allocator at work: of this machine's kernel, of a live process, or of a simulated machine.
///
/// Free pages by order and zone, the pageblocks, waits for locks, per-CPU lists, and events a second. Without arguments
/// it is the kernel of this machine; as root, with its pageblocks.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright top
      this machine's kernel; as root it shows the pageblocks too
  framewright top --workload page-fault1 --machine skylake-2x28 --cpus 112 -m default
      a simulated run; the options are those of framewright sim
  framewright top --from pool.sock
      the process that shows itself there
  framewright top --workload page-fault1 --cpus 8 --until 0.02 --once --size 100x30
      one frame as text, for a file or a message

Keys: q leaves, ? lists the others. docs/top.md says what every panel shows, and where the numbers are from.")]
pub(crate) struct Top {
    /// Show this machine's kernel, by its files in /proc; this is the default.
    #[arg(long, conflicts_with_all = ["from", "machine", "workload", "mechanisms", "cpus", "seed", "seconds", "warm_up", "schedule", "until"])]
    kernel: bool,
    /// Show the process that shows its arena at this socket.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["machine", "workload", "mechanisms", "cpus", "seed", "seconds", "warm_up", "schedule", "until"])]
    from: Option<PathBuf>,
    /// Time between two samples, in seconds; of a simulated run, in seconds of simulated time [default: 1; simulated
    /// 0.001].
    #[arg(long, value_name = "SECONDS")]
    every: Option<f64>,
    /// Pause a simulated run when its time is this, in seconds; with --once, the frame's time [default with --once: 10
    /// samples].
    #[arg(long, value_name = "SECONDS")]
    until: Option<f64>,
    /// Print one frame as text, and end.
    #[arg(long)]
    once: bool,
    /// Columns and rows of that frame [default: 80x24].
    #[arg(long, value_name = "WIDTHxHEIGHT", requires = "once", value_parser = size)]
    size: Option<(u16, u16)>,
    #[command(flatten, next_help_heading = "Of a simulated run")]
    runs: RunArgs,
}

/// The screen and its source, before the loop starts.
struct Show {
    state: Screen,
    feed: Feed,
}

/// Seconds between two looks of which the part that goes into pageblocks is enough for those of any machine.
const WHOLE: f64 = 1e6;

impl Top {
    #[allow(clippy::disallowed_methods, reason = "asks whether it is a terminal")]
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if !self.once && !has_terminal {
            bail!(
                "top needs a terminal to draw on and to hear keys from: --once prints one frame as text, \
                 `framewright proc` the files of a run or a process, `framewright sim` the report of a run"
            );
        }
        let mut show = match &self.from {
            Some(socket) => self.process(socket)?,
            None if self.runs.are_meant() || self.until.is_some() => self.simulated()?,
            None => self.kernel()?,
        };
        if self.once {
            return self.print_once(show);
        }
        terminal::run(&mut show.state, &show.feed, Theme::of_environment())?;
        // Why it ended is said again where it stays.
        match show.state.ended {
            Some(reason) => bail!("{reason}"),
            None => Ok(()),
        }
    }

    fn kernel(&self) -> anyhow::Result<Show> {
        let every = self.every(TimeBase::Wall, 1.0)?;
        let mut kernel = Kernel::at("/proc");
        let state = Screen::new(kernel.about()?, every);
        // One frame is to show all of it, however long that takes.
        let is_whole = self.once;
        let feed = Feed::watch(every, move |at, every| kernel.look(at, if is_whole { WHOLE } else { every }));
        Ok(Show { state, feed })
    }

    fn process(&self, path: &Path) -> anyhow::Result<Show> {
        let every = self.every(TimeBase::Wall, 1.0)?;
        let socket = Socket::at(path);
        let state = Screen::new(socket.about()?, every);
        Ok(Show { state, feed: Feed::watch(every, move |at, _| socket.look(at)) })
    }

    fn simulated(&self) -> anyhow::Result<Show> {
        let every = self.every(TimeBase::Simulated, 0.001)?;
        let machine = self.runs.machine()?;
        let workload = self.runs.workload(&[])?;
        let (&[mechanisms], &[cpus]) = (&*self.runs.mechanisms()?, &*self.runs.cpus(&machine)?) else {
            bail!("top shows one run: one set of mechanisms, one number of CPUs");
        };
        if let Some(until) = self.until.filter(|until| !(1e-9..=3600.0).contains(until)) {
            bail!("--until {until}: has to be a nanosecond at least and an hour at most");
        }
        let usual = self.runs.job(&workload, mechanisms, cpus);
        // The workload's window does not matter here: the run goes on.
        let window = if self.runs.job.seconds.is_some() { usual.window } else { 0 };
        let warm_up = if self.runs.job.warm_up.is_some() { usual.warm_up } else { 0 };
        let until = self.until.or(self.once.then_some(every * FRAMES));
        let simulation = Simulation { model: machine.model().clone(), job: Job { window, warm_up, ..usual }, until };
        let state = Screen::new(simulation.about(), every);
        Ok(Show { state, feed: simulation.start(every) })
    }

    fn every(&self, clock: TimeBase, usual: f64) -> anyhow::Result<f64> {
        let every = self.every.unwrap_or(usual);
        let (least, most) = clock.bounds();
        if !(least..=most).contains(&every) {
            let of = if clock == TimeBase::Wall { "" } else { " of simulated time" };
            bail!("--every {every}: has to be from {least} to {most} seconds{of}");
        }
        Ok(every)
    }

    /// One frame, of as many samples as it takes to know what happens.
    fn print_once(&self, mut show: Show) -> anyhow::Result<()> {
        let is_simulated = show.state.about.clock == TimeBase::Simulated;
        while if is_simulated { !show.state.is_paused } else { show.state.between().is_none() } {
            match show.feed.next() {
                Some(Told::Ended(reason, true)) => bail!("{reason}"),
                Some(Told::Ended(reason, false)) if show.state.between().is_none() => {
                    bail!("{reason} before its second sample: a longer --seconds, or a shorter --every")
                }
                Some(told) => tell(&mut show.state, told),
                None => break,
            }
        }
        let theme = Theme { has_colours: false, has_blocks: true };
        print(&frame(&show.state, theme, self.size.unwrap_or((80, 24))))
    }
}

/// `80x24`.
fn size(text: &str) -> Result<(u16, u16), String> {
    let (least, most) = (draw::LEAST, 1000);
    let size = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    match size {
        Some((width, height)) if (least.0..=most).contains(&width) && (least.1..=most).contains(&height) => {
            Ok((width, height))
        }
        Some(_) => Err(format!("has to be from {}x{} to {most}x{most}", least.0, least.1)),
        None => Err("is no size: write columns and rows, as 80x24".to_owned()),
    }
}
