//! This machine's own kernel, by its files in `/proc`.
//!
//! Every user may read `zoneinfo`, `buddyinfo` and `vmstat`; reading all three takes a fraction of a millisecond. Only
//! root may read `pagetypeinfo`, and the kernel takes the zone locks while it counts. `kpageflags`, root's too, has
//! eight bytes a frame, and the kernel produces about ten million of them a second. That is two thirds of a second for
//! 24 GiB: too much for every sample. So each sample reads a part of the pageblocks, for at most two percent of the
//! time in between, and the panel says how old the oldest part is. Until all were read once, a sample takes a quarter
//! of a second for them, so that the other panels need not wait for the slowest one.
//!
//! No file of `/proc` tells waits for locks, or how often a request fell back to another mobility. The panel names the
//! tools that do.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use framewright::units::PfnRange;
use framewright_table::figures::counted;

use super::map::{Block, Map, block_of_flags};
use super::sample::{Known, Sample, Texts};
use super::state::{About, TimeBase};
use super::sweep::{PageblockSweep, pageblocks};

/// Why there are no locks.
const LOCKS: &str = "The kernel does not count waits in /proc.\nWhat does: perf lock contention -ab sleep 10";
/// Part of the time between two looks that reading pageblocks may take.
const SHARE: f64 = 0.02;

/// How long a look reads such as have not been read yet.
const FIRST: Duration = Duration::from_millis(250);

/// A file of the kernel's cannot be read, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// It cannot be read.
    #[error("cannot read {}: {error}; is /proc mounted? A simulated machine is shown by --workload, a process by --from", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It says something unexpected.
    #[error(transparent)]
    Malformed(#[from] framewright_trace::error::TraceError),
}

/// This machine's kernel, as a source.
pub struct Kernel {
    proc: PathBuf,
    flags: Flags,
}

impl Kernel {
    /// The kernel whose files are below this folder: `/proc`.
    pub fn at(proc: impl Into<PathBuf>) -> Kernel {
        let proc = proc.into();
        let flags = Flags::open(&proc.join("kpageflags"));
        Kernel { proc, flags }
    }

    /// Its description, for the head of the screen. Needs a sample for the number of CPUs.
    ///
    /// # Errors
    /// As [`Kernel::look`].
    pub fn about(&self) -> Result<About, KernelError> {
        let zones = self.texts().and_then(|texts| Ok(Sample::read(0.0, &texts, None)?.zones))?;
        let cpus = zones.iter().map(|zone| zone.pcps.len()).max().unwrap_or(0);
        let nodes = zones.iter().map(|zone| zone.node).max().map_or(1, |last| last + 1);
        let release = fs::read_to_string(self.proc.join("sys/kernel/osrelease")).unwrap_or_default();
        Ok(About {
            source: format!("kernel {}", release.trim()).trim_end().to_owned(),
            machine: format!("{}, {}", counted(cpus, "CPU"), counted(nodes as usize, "node")),
            cpus,
            mechanisms: self.mechanisms(),
            clock: TimeBase::Wall,
        })
    }

    /// How it is now, `at` seconds of its clock. The number of pageblocks that are read depends on the time until the
    /// next look.
    ///
    /// # Errors
    /// A file that everybody can read cannot be read, or is malformed.
    pub fn look(&mut self, at: f64, every: f64) -> Result<Sample, KernelError> {
        let mut sample = Sample::read(at, &self.texts()?, None)?;
        sample.locks = Err(LOCKS.to_owned());
        sample.map = self.flags.look(&sample, Duration::from_secs_f64(every * SHARE));
        Ok(sample)
    }

    /// The mechanisms. A kernel whose allocator is Framewright has a file of its own, which is for root alone.
    fn mechanisms(&self) -> String {
        let text = fs::read_to_string(self.proc.join("framewright")).unwrap_or_default();
        let named = text.lines().find_map(|line| line.strip_prefix("mechanisms "));
        named.map_or("Linux's own mechanisms; the files of /proc".to_owned(), |named| format!("Framewright: {named}"))
    }

    fn texts(&self) -> Result<Texts, KernelError> {
        let text = |name: &str| {
            let path = self.proc.join(name);
            fs::read_to_string(&path).map_err(|error| KernelError::Read { path, error })
        };
        Ok(Texts {
            zoneinfo: text("zoneinfo")?,
            buddyinfo: text("buddyinfo")?,
            pagetypeinfo: text("pagetypeinfo").ok(),
            vmstat: text("vmstat")?,
        })
    }
}

/// The frames' flags.
struct Flags {
    file: io::Result<File>,
    sweep: PageblockSweep,
}

impl Flags {
    fn open(path: &Path) -> Flags {
        Flags { file: File::open(path), sweep: PageblockSweep::default() }
    }

    /// The pageblocks, some of them just read.
    fn look(&mut self, sample: &Sample, budget: Duration) -> Known<Arc<Map>> {
        let pageblock = 1_u64 << sample.pageblock.0;
        let file = self.file.as_ref().map_err(unreadable)?;
        let start = Instant::now();
        let read = |range| read(file, range, pageblock).map_err(|error| unreadable(&error));
        let is_enough = |_, was_read| start.elapsed() >= if was_read { budget } else { budget.max(FIRST) };
        let map = self.sweep.look(sample, read, is_enough)?;
        Ok(Arc::new(Map { by_content: true, ..map }))
    }
}

/// Reads the pageblocks of a range.
fn read(file: &File, range: PfnRange, pageblock: u64) -> io::Result<Vec<Block>> {
    let mut bytes = vec![0; (range.frames() * 8) as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], range.start.0 * 8 + filled as u64) {
            // Behind the last frame that the kernel knows.
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (frames, _) = bytes[..filled].as_chunks();
    let mut flags = frames.iter().map(|&frame| u64::from_le_bytes(frame));
    let block = |part: PfnRange| block_of_flags(flags.by_ref().take(part.frames() as usize));
    Ok(pageblocks(range, pageblock).map(block).collect())
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "/proc/kpageflags is for root.\nWhat shows it: sudo framewright top".to_owned()
        }
        io::ErrorKind::NotFound => {
            "This kernel has no /proc/kpageflags (CONFIG_PROC_PAGE_MONITOR): which pageblocks are in use is not told."
                .to_owned()
        }
        _ => format!("/proc/kpageflags cannot be read: {error}"),
    }
}
