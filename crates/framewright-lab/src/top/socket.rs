//! A live process that shows its arena at a socket (`Arena::export`): the files that `framewright proc --from` reads.
//!
//! A sample is five requests, each on a connection of its own; the process answers without a lock. The socket has only
//! files that Linux has too, so the panels of pageblocks and locks say that their data is missing.

use std::path::{Path, PathBuf};

use framewright_rt::ReportFile;
use framewright_rt::export::{FetchError, fetch};
use framewright_trace::error::TraceError;

use super::sample::{Sample, Texts};
use super::state::{About, TimeBase};

/// Why there are no locks.
const LOCKS: &str = "Not exported: a process does not count waits for its locks.\nWhat does: the same on a simulated machine, top --workload";
/// Why there are no pageblocks.
const MAP: &str = "Not exported: the socket's files count pageblocks and do not place them.\nHow many there are: framewright proc pagetypeinfo";

/// The process cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// No process answers, or not with this file.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The answer is malformed.
    #[error(transparent)]
    Malformed(#[from] TraceError),
}

/// A process with an exported arena, as a source.
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// The process at this socket.
    pub fn at(path: impl AsRef<Path>) -> Socket {
        Socket { path: path.as_ref().to_owned() }
    }

    /// Its description, for the head of the screen.
    ///
    /// # Errors
    /// As [`Socket::look`].
    pub fn about(&self) -> Result<About, SocketError> {
        let zones = self.look(0.0)?.zones;
        let cpus = zones.iter().map(|zone| zone.pcps.len()).max().unwrap_or(0);
        let mut nodes: Vec<u32> = zones.iter().map(|zone| zone.node).collect();
        nodes.dedup();
        Ok(About {
            source: format!("process at {}", self.path.display()),
            machine: format!("{cpus} CPUs, {} nodes", nodes.len()),
            cpus,
            mechanisms: "mechanisms: not exported".to_owned(),
            clock: TimeBase::Wall,
        })
    }

    /// How it is now, `at` seconds of its clock.
    ///
    /// # Errors
    /// No process answers at the socket, or not as an exported arena does.
    pub fn look(&self, at: f64) -> Result<Sample, SocketError> {
        let text = |file| fetch(&self.path, file);
        let texts = Texts {
            zoneinfo: text(ReportFile::ZoneInfo)?,
            buddyinfo: text(ReportFile::BuddyInfo)?,
            pagetypeinfo: Some(text(ReportFile::PageTypeInfo)?),
            vmstat: text(ReportFile::VmStat)?,
        };
        let sample = Sample::read(at, &texts, None)?;
        Ok(Sample { locks: Err(LOCKS.to_owned()), map: Err(MAP.to_owned()), ..sample })
    }
}
