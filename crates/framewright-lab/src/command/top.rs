//! `framewright top`: a live view.

use std::io::IsTerminal;

use anyhow::bail;
use clap::Args;
use framewright_lab::top::terminal::{self, tell};
use framewright_lab::top::{Clock, Feed, Kernel, Theme, Told, Top as State, draw, frame};

use super::print;

/// Look at a page allocator at work: this machine's kernel.
///
/// Free pages by order and zone, the pageblocks, waits for locks, per-CPU lists, and events a second. Without arguments it is the
/// kernel of this machine; as root, with its pageblocks.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright top
      this machine's kernel; as root it shows the pageblocks too
  framewright top --once --size 100x30
      one frame as text, for a file or a message

Keys: q leaves, ? lists the others. docs/top.md says what every panel shows, and where the numbers are from.")]
pub(crate) struct Top {
    /// Show this machine's kernel, by its files in /proc; this is the default.
    #[arg(long)]
    kernel: bool,
    /// Time between two samples, in seconds [default: 1].
    #[arg(long, value_name = "SECONDS")]
    every: Option<f64>,
    /// Print one frame as text, of two samples, and end.
    #[arg(long)]
    once: bool,
    /// Columns and rows of that frame [default: 80x24].
    #[arg(long, value_name = "WIDTHxHEIGHT", requires = "once", value_parser = size)]
    size: Option<(u16, u16)>,
}

/// What there is to show, before it begins.
struct Show {
    state: State,
    feed: Feed,
}

impl Top {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if !self.once && !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
            bail!(
                "top needs a terminal to draw on and to hear keys from: --once prints one frame as text, \
                 `framewright proc` the files of a run or a process, `framewright sim` the report of a run"
            );
        }
        let mut show = self.kernel()?;
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
        let every = self.every(Clock::Wall, 1.0)?;
        let mut kernel = Kernel::at("/proc");
        let state = State::new(kernel.about()?, every);
        let feed = Feed::watch(every, move |at, every| kernel.look(at, every));
        Ok(Show { state, feed })
    }

    fn every(&self, clock: Clock, usual: f64) -> anyhow::Result<f64> {
        let every = self.every.unwrap_or(usual);
        let (least, most) = clock.bounds();
        if !(least..=most).contains(&every) {
            let of = if clock == Clock::Wall { "" } else { " of simulated time" };
            bail!("--every {every}: has to be from {least} to {most} seconds{of}");
        }
        Ok(every)
    }

    /// One frame, of as many samples as it takes to know what happens.
    fn print_once(&self, mut show: Show) -> anyhow::Result<()> {
        while show.state.between().is_none() {
            match show.feed.next() {
                Some(Told::Ended(reason, true)) => bail!("{reason}"),
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
