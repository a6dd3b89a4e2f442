//! The buffers' pages on their way to the disk, with a thread and a file for each CPU.
//!
//! A reader takes every page that there is, packs it and goes to sleep. It never waits in the kernel: the kernel would
//! have to wake it, and each event of its own would cause another. Its writes need page frames too. Those are requests
//! like any other; they add the few hundredths that packed pages take.
//!
//! A reader that cannot go on waits for the end and closes its file as well as it can, while the others go on. Up to
//! the last page of that file, all files together are a trace without a gap.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use framewright_trace::output::{Access, Folder};
use framewright_trace::ring_buffer::{Lost, PageLayout};
use rustix::fs::{Mode, OFlags, open};

use super::error::RecordError;
use super::room::Room;

/// How long a reader sleeps when it has read everything. A CPU that does nothing but fault fills about 1 MiB in that
/// time.
const NAP: Duration = Duration::from_millis(25);

/// How far recording is.
#[derive(Debug, Default)]
pub struct SpoolProgress {
    /// Events that were read.
    pub events: AtomicU64,
    /// Events that were lost so far.
    pub lost: AtomicU64,
    /// Bytes that were written.
    pub packed: AtomicU64,
    stop: AtomicBool,
    failed: AtomicBool,
}

/// The pages of a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packed {
    /// The CPU.
    pub cpu: u16,
    /// Whether its reader could not go on, so that the last ones are not there.
    pub is_cut: bool,
}

/// The bytes read, and the first error.
pub type Spooled = (Vec<Packed>, Option<RecordError>);

/// Readers at work.
pub struct Spool {
    /// Of its folder, for messages.
    path: PathBuf,
    readers: Vec<(u16, JoinHandle<io::Result<()>>)>,
    progress: Arc<SpoolProgress>,
    /// Until the end.
    room: Option<Room>,
    /// There is no room for a longer trace.
    is_full: bool,
}

impl Spool {
    /// Starts a reader for each CPU, by the folder of its buffer, which writes into `folder`.
    ///
    /// # Errors
    /// A file cannot be opened or made, or there is no room for a trace.
    #[allow(clippy::disallowed_methods, reason = "the kernel's buffers are opened to read")]
    pub fn start(
        cpus: Vec<(u16, PathBuf)>,
        layout: &PageLayout,
        page_size: usize,
        folder: &Folder,
    ) -> Result<Spool, RecordError> {
        let progress = Arc::new(SpoolProgress::default());
        let path = folder.path().to_owned();
        let room = Room::take(folder, "room").map_err(|_| full(&path))?;
        let mut spool = Spool { path, readers: Vec::new(), progress, room: Some(room), is_full: false };
        for (cpu, source) in cpus {
            let (source, name) = (source.join("trace_pipe_raw"), page_file(cpu));
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let pages = open(&source, flags, Mode::empty()).map(File::from);
            let pages = pages.map_err(|error| RecordError::at("read", &source, error.into()))?;
            let packed = folder.create_new(&name, Access::Private);
            let packed = packed.map_err(|error| RecordError::at("make", &spool.path.join(&name), error))?;
            let reader = Reader { pages, layout: layout.clone(), page: vec![0; page_size] };
            let progress = spool.progress.clone();
            let run = move || reader.run(packed, progress);
            let thread = thread::Builder::new().name(format!("record/{cpu}")).spawn(run);
            let thread = thread.map_err(|error| RecordError::at("start a reader of", &source, error))?;
            spool.readers.push((cpu, thread));
        }
        Ok(spool)
    }

    /// How far it is.
    pub fn progress(&self) -> &SpoolProgress {
        &self.progress
    }

    /// Whether all readers are at work, and there is room for what they have read.
    pub fn goes_on(&mut self) -> bool {
        let packed = self.progress.packed.load(Ordering::Relaxed);
        self.is_full |= self.room.as_mut().is_some_and(|room| room.grow(packed).is_err());
        !self.is_full && !self.progress.failed.load(Ordering::Relaxed)
    }

    /// Has the readers read what is left and end, and gives back the room that was held.
    pub fn finish(mut self) -> Spooled {
        let full = self.is_full.then(|| full(&self.path));
        let mut failures: Vec<RecordError> = full.into_iter().collect();
        // First, so that readers find room for what they hold.
        self.room = None;
        self.progress.stop.store(true, Ordering::Release);
        let mut files = Vec::new();
        // All of them, whatever becomes of the first: the instance can only be removed when its files are closed.
        for (cpu, thread) in std::mem::take(&mut self.readers) {
            let path = self.path.join(page_file(cpu));
            thread.thread().unpark();
            let result = thread.join().unwrap_or_else(|_| Err(io::Error::other("the reader has died")));
            files.push(Packed { cpu, is_cut: result.is_err() });
            failures.extend(result.err().map(|error| RecordError::at("fill", &path, error)));
        }
        (files, failures.into_iter().next())
    }
}

/// Returns the name of the file with a CPU's pages.
pub(super) fn page_file(cpu: u16) -> String {
    format!("cpu{cpu}.gz")
}

/// There is no room where this folder is.
fn full(folder: &Path) -> RecordError {
    RecordError::Full(folder.parent().unwrap_or(folder).display().to_string())
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.progress.stop.store(true, Ordering::Relaxed);
        for (_, thread) in self.readers.drain(..) {
            thread.thread().unpark();
            // The instance can only be removed when its files are closed.
            let _ = thread.join();
        }
    }
}

struct Reader {
    pages: File,
    layout: PageLayout,
    page: Vec<u8>,
}

impl Reader {
    fn run(mut self, packed: File, progress: Arc<SpoolProgress>) -> io::Result<()> {
        let packed = BufWriter::with_capacity(256 << 10, Counted { file: packed, progress: progress.clone() });
        let mut out = GzEncoder::new(packed, Compression::fast());
        let read = self.copy(&mut out, &progress);
        if read.is_err() {
            progress.failed.store(true, Ordering::Relaxed);
            // Packed bytes that are not written yet have room when the recording ends.
            while !progress.stop.load(Ordering::Acquire) {
                thread::park_timeout(NAP);
            }
        }
        let written = out.finish().and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error));
        read.and(written.map(drop))
    }

    /// Copies page after page until it is to stop.
    fn copy(&mut self, out: &mut impl Write, progress: &SpoolProgress) -> io::Result<()> {
        loop {
            // Read first: events that were recorded before it was set are read below.
            let last = progress.stop.load(Ordering::Relaxed);
            while let Some(length) = self.read()? {
                self.count(length, progress);
                out.write_all(&self.page)?;
            }
            if last {
                return Ok(());
            }
            thread::park_timeout(NAP);
        }
    }

    /// The next page, if there is one.
    fn read(&mut self) -> io::Result<Option<usize>> {
        loop {
            match self.pages.read(&mut self.page) {
                Ok(0) => return Ok(None),
                Ok(length) => {
                    self.page[length..].fill(0);
                    return Ok(Some(length));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Counts the events of a page. A fault of an event is told when it is decoded.
    fn count(&self, length: usize, progress: &SpoolProgress) {
        let Ok(page) = self.layout.open(&self.page[..length]) else { return };
        let lost = page.lost().map_or(0, |Lost(events)| events.unwrap_or(1));
        let events = page.filter(Result::is_ok).count();
        progress.events.fetch_add(events as u64, Ordering::Relaxed);
        progress.lost.fetch_add(lost, Ordering::Relaxed);
    }
}

/// A file whose bytes are counted.
struct Counted {
    file: File,
    progress: Arc<SpoolProgress>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.progress.packed.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    /// A kernel's description of pages of 4 KiB.
    pub(in crate::record) const HEADER_PAGE: &str = "field: u64 timestamp; offset:0; size:8; signed:0;
field: local_t commit; offset:8; size:8; signed:1;
field: char data; offset:16; size:4080; signed:0;";

    /// A replacement for an instance: the first CPU's pages cannot be read.
    #[test]
    fn every_reader_is_joined_whatever_the_first_says() {
        let folder = tempfile::tempdir().unwrap();
        let layout = PageLayout::parse(HEADER_PAGE).unwrap();
        let mut cpus = Vec::new();
        for cpu in 0..3 {
            let cpu_folder = folder.path().join(format!("cpu{cpu}"));
            fs::create_dir(&cpu_folder).unwrap();
            match cpu {
                0 => fs::create_dir(cpu_folder.join("trace_pipe_raw")).unwrap(),
                _ => fs::write(cpu_folder.join("trace_pipe_raw"), [0; 2 * 4096]).unwrap(),
            }
            cpus.push((cpu, cpu_folder));
        }
        let inner = Folder::make(&folder.path().join("spool"), Access::Private).unwrap();
        let spool = Spool::start(cpus, &layout, 4096, &inner).unwrap();
        let progress = spool.progress.clone();
        let (files, failure) = spool.finish();
        assert_eq!(Arc::strong_count(&progress), 1, "no reader is left");
        assert_eq!(files.iter().map(|file| file.is_cut).collect::<Vec<_>>(), [true, false, false]);
        let failure = failure.unwrap().to_string();
        assert!(failure.contains("spool/cpu0.gz"), "{failure}");
        assert!(!folder.path().join("spool/room").exists());
        for file in &files {
            let pages = framewright_trace::input::read_whole(&inner.path().join(page_file(file.cpu)), 1 << 20).unwrap();
            assert_eq!(pages.len(), if file.is_cut { 0 } else { 2 * 4096 });
        }
    }
}
