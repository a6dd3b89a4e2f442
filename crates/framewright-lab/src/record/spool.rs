//! The buffers' pages on their way to the disk, a thread and a file for each CPU.
//!
//! A reader takes every page that there is, packs it and goes to sleep: it never waits in the kernel, which would have
//! to wake it, and so does not answer each event of its own with another one. What it writes needs page frames too.
//! Those are requests like any other's; they grow with the rest by the few hundredths that packed pages take.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use framewright_trace::raw::{Lost, PageLayout};

use super::RecordError;
use super::tracefs::Instance;

/// How long a reader sleeps when it has read everything. A CPU that does nothing but fault fills about 1 MiB in that time.
const NAP: Duration = Duration::from_millis(25);

/// How far recording is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Events that were read.
    pub events: AtomicU64,
    /// Events that were lost so far.
    pub lost: AtomicU64,
    stop: AtomicBool,
}

/// Readers at work.
pub struct Spool {
    folder: PathBuf,
    readers: Vec<(u16, JoinHandle<io::Result<()>>)>,
    progress: Arc<Progress>,
}

impl Spool {
    /// Starts a reader for each CPU, which writes into `folder`.
    ///
    /// # Errors
    /// A file cannot be opened or made.
    pub fn start(
        instance: &Instance,
        layout: &PageLayout,
        page_size: usize,
        folder: &Path,
    ) -> Result<Spool, RecordError> {
        fs::create_dir(folder).map_err(|error| RecordError::at("make", folder, error))?;
        let progress = Arc::new(Progress::default());
        let mut spool = Spool { folder: folder.to_owned(), readers: Vec::new(), progress };
        for (cpu, source) in instance.cpus()? {
            let (source, target) = (source.join("trace_pipe_raw"), spool.file(cpu));
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let pages = OpenOptions::new().read(true).custom_flags(nonblocking).open(&source);
            let pages = pages.map_err(|error| RecordError::at("read", &source, error))?;
            let packed = File::create(&target).map_err(|error| RecordError::at("make", &target, error))?;
            let reader = Reader { pages, layout: layout.clone(), page: vec![0; page_size] };
            let progress = spool.progress.clone();
            let run = move || reader.run(packed, &progress);
            let thread = thread::Builder::new().name(format!("record/{cpu}")).spawn(run);
            let thread = thread.map_err(|error| RecordError::at("start a reader of", &source, error))?;
            spool.readers.push((cpu, thread));
        }
        Ok(spool)
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether a reader has given up.
    pub fn has_failed(&self) -> bool {
        self.readers.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Reads what is left and ends the readers. Returns the CPUs and their files.
    ///
    /// # Errors
    /// A page could not be read or written.
    pub fn finish(mut self) -> Result<Vec<(u16, PathBuf)>, RecordError> {
        self.progress.stop.store(true, Ordering::Relaxed);
        let mut files = Vec::new();
        for (cpu, thread) in std::mem::take(&mut self.readers) {
            let path = self.file(cpu);
            thread.thread().unpark();
            let result = thread.join().unwrap_or_else(|_| Err(io::Error::other("the reader has died")));
            result.map_err(|error| RecordError::at("fill", &path, error))?;
            files.push((cpu, path));
        }
        Ok(files)
    }

    fn file(&self, cpu: u16) -> PathBuf {
        self.folder.join(format!("cpu{cpu}.gz"))
    }
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
    fn run(mut self, packed: File, progress: &Progress) -> io::Result<()> {
        let mut out = GzEncoder::new(BufWriter::with_capacity(256 << 10, packed), Compression::fast());
        loop {
            // Looked at first: what was recorded before it was set is read below.
            let last = progress.stop.load(Ordering::Relaxed);
            while let Some(length) = self.read()? {
                self.count(length, progress);
                out.write_all(&self.page)?;
            }
            if last {
                break;
            }
            thread::park_timeout(NAP);
        }
        out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.flush()
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

    /// Counts the events of a page. What is wrong with one is told when it is decoded.
    fn count(&self, length: usize, progress: &Progress) {
        let Ok(page) = self.layout.open(&self.page[..length]) else { return };
        let lost = page.lost().map_or(0, |Lost(events)| events.unwrap_or(1));
        let events = page.filter(Result::is_ok).count();
        progress.events.fetch_add(events as u64, Ordering::Relaxed);
        progress.lost.fetch_add(lost, Ordering::Relaxed);
    }
}
