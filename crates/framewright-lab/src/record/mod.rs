//! A recording of this machine's own kernel: every request for page frames, and the state of memory before them.
//!
//! There are five steps. An instance of tracefs is set up (`tracefs.rs`), and its buffers are read from then on
//! (`spool.rs`). The state of memory is read (`state.rs`). The workload runs (`workload.rs`). The state is read again.
//! At last, pages and states become a folder that `framewright replay` takes as it is (`write.rs`): `trace.fwt`, and in
//! `after/` the kernel's files at the end. `doctor.rs` says how much of that this machine can do, and how to mend the
//! rest.
//!
//! The instance is removed when the recorder returns, fails or is interrupted. Only SIGKILL leaves it; the next
//! recording removes it then. No recorded event is thrown away. Everything that can be refused is checked before the
//! workload starts. A later failure cuts the recording short, or is told beside it. Room for the trace is reserved
//! while pages are spooled (`room.rs`). If the trace cannot be written all the same, the pages stay in `spool/`,
//! with what `framewright convert` needs to make the trace later (`kept.rs`).

pub mod doctor;
mod kept;
mod write;
pub mod spool;
mod room;
pub mod state;
pub mod tracefs;
pub mod workload;
pub mod identity;
mod offspring;
mod error;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use framewright_trace::output::{self, Access, Folder, NewFile};
use framewright_trace::record::Quality;
use framewright_trace::ring_buffer::{Format, PageLayout};
use framewright_trace::state::{InitialState, StateFile};

pub use self::error::RecordError;
pub use self::kept::{convert, is_kept};

use self::doctor::Findings;
use self::identity::Identity;
use self::spool::Spool;
use self::state::TimedFlags;
use self::tracefs::{EVENTS, INNER, Instance};
use self::workload::{End, Interrupts, PATIENCE, Workload};
use self::write::{Recorded, described};

/// Name of the trace in a recording's folder.
pub const TRACE: &str = "trace.fwt";
/// Name of the folder with the pages while they are no trace.
const SPOOL: &str = "spool";

/// The settings of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The folder, which must not exist or be empty.
    pub folder: PathBuf,
    /// The command to run; nothing to record until the time is over or a signal arrives.
    pub command: Vec<String>,
    /// The user that the command runs as; this program's, if there is none.
    pub identity: Option<Identity>,
    /// How long at most.
    pub duration: Option<Duration>,
    /// Memory for the events of each CPU, in KiB.
    pub buffer_kib: u64,
    /// Whether to record how the allocator goes about it, too.
    pub inner: bool,
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Events and losses.
    pub quality: Quality,
    /// How the workload ended.
    pub end: End,
    /// How long it took.
    pub elapsed: Duration,
    /// Bytes of the trace.
    pub bytes: u64,
    /// Why page moves were not recorded; nothing if they were.
    pub no_moves: String,
    /// Faults on the way that the recording survived.
    pub warnings: Vec<String>,
}

/// How far a recording is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The state is read.
    State,
    /// The workload runs: events so far, and those of them that were lost.
    Running(u64, u64),
    /// The trace is written: events so far.
    Writing(u64),
}

/// Records. `tell` hears how far it is.
///
/// # Errors
/// The machine cannot be recorded, the folder is in use, or something failed on the way.
pub fn record(options: &Options, tell: &mut dyn FnMut(Step)) -> Result<Recording, RecordError> {
    let tracefs = ready(&Findings::gather())?;
    let (folder, made) = make_folder(&options.folder)?;
    let mut result = record_into(options, &tracefs, &folder, tell);
    if !matches!(result, Err(RecordError::Kept { .. })) {
        let _ = folder.remove_inner(SPOOL);
    }
    if result.is_err() && made {
        // Only if nothing is in it.
        let _ = fs::remove_dir(&options.folder);
    }
    if let (Ok(recording), Err(error)) = (&mut result, give_to_caller(&folder)) {
        recording.warnings.push(format!("the recording stays root's: {error}"));
    }
    result
}

/// Where tracefs is, if the machine can be recorded.
fn ready(found: &Findings) -> Result<PathBuf, RecordError> {
    let checks = doctor::examine(found);
    match &found.tracefs {
        Some(tracefs) if doctor::would_work(&checks) => Ok(tracefs.clone()),
        _ => {
            let lacking = checks.iter().filter(|check| check.verdict == doctor::CheckVerdict::Missing);
            let lacking = lacking.map(|check| format!("{}: {}\n    -> {}", check.name, check.found, check.remedy));
            Err(RecordError::NotReady(lacking.collect()))
        }
    }
}

/// Makes a folder, or takes an empty one of the user's own; returns whether it was made. Only its owner may read it,
/// because it holds data that the kernel shows to root alone. Only its owner may write there.
///
/// The folder stays open, and everything is written relative to it: the recorded command may rename it meanwhile, and
/// put a link in its place.
fn make_folder(path: &Path) -> Result<(Folder, bool), RecordError> {
    let fail = |doing| move |error| RecordError::at(doing, path, error);
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => Err(RecordError::NotOwn(path.display().to_string())),
        Ok(_) => {
            let folder = Folder::open(path, Access::Private).map_err(fail("use"))?;
            if !folder.names().map_err(fail("use"))?.is_empty() {
                return Err(RecordError::Exists(path.display().to_string()));
            }
            folder.claim().map_err(|_| RecordError::NotOwn(path.display().to_string()))?;
            Ok((folder, false))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = Folder::make(path, Access::Private).map_err(fail("make"))?;
            // Another process may have been faster.
            folder.claim().map_err(|_| RecordError::NotOwn(path.display().to_string()))?;
            Ok((folder, true))
        }
        Err(error) => Err(RecordError::at("use", path, error)),
    }
}

/// Gives a recording that was made through `sudo` to the user that called it, so that this user can read it.
fn give_to_caller(folder: &Folder) -> io::Result<()> {
    output::caller().map_or(Ok(()), |(user, group)| folder.give(user, group))
}

fn record_into(
    options: &Options,
    tracefs: &Path,
    folder: &Folder,
    tell: &mut dyn FnMut(Step),
) -> Result<Recording, RecordError> {
    let interrupts = Interrupts::note().map_err(|error| RecordError::at("catch", Path::new("signals"), error))?;
    let mut instance = Instance::create(tracefs, options.buffer_kib)?;
    let no_moves = instance.set_probe().err().unwrap_or_default();
    let formats = enable(&instance, options.inner)?;
    // What cannot be decoded is not recorded.
    let parsed = formats.iter().map(|text| Format::parse(text)).collect::<Result<Vec<_>, _>>();
    write::decoder(&parsed.map_err(described)?, &state::texts()?)?;
    let header_page = instance.read("events/header_page")?;
    let layout = PageLayout::parse(&header_page).map_err(described)?;
    let page_size = instance.page_size().unwrap_or(layout.page_size());
    let inner = folder.make_inner(SPOOL, Access::Private);
    let inner = inner.map_err(|error| RecordError::at("make", &folder.path().join(SPOOL), error))?;
    let mut spool = Spool::start(instance.cpus()?, &layout, page_size, &inner)?;
    let Played { state, flags, tasks, start, end, elapsed, after, mut warnings } =
        play(options, &instance, &mut spool, &interrupts, tell)?;
    let (files, cut) = spool.finish();
    warnings.extend(cut.as_ref().map(|error| format!("the trace ends early: {error}")));
    let lost = instance.lost();
    warnings.extend(instance.remove().iter().map(|error| format!("{error}; the next recording tries it again")));
    let recorded =
        Recorded { header_page, formats, page_size, spool: inner, files, cut, tasks, state, flags, start, lost };
    let kept = keep(folder, recorded, tell);
    // Beside the pages too, if they are kept: a trace that is made of them later has its place here.
    let after = after.and_then(|after| write_after(&after, folder));
    let (quality, bytes) = kept?;
    warnings.extend(after.err().map(|error| format!("what the kernel said at the end is not there: {error}")));
    Ok(Recording { quality, end, elapsed, bytes, no_moves, warnings })
}

/// Makes the pages a trace, which takes their place. Returns its bytes, too.
fn keep(folder: &Folder, mut recorded: Recorded, tell: &mut dyn FnMut(Step)) -> Result<(Quality, u64), RecordError> {
    let written = write::write(&mut recorded, folder, TRACE.as_ref(), &mut |events| tell(Step::Writing(events)));
    let kept = |error| RecordError::Kept {
        error: Box::new(error),
        spool: recorded.spool.path().display().to_string(),
        is_convertible: kept::keep(&recorded).is_ok(),
    };
    let written = written.map_err(kept)?;
    let _ = folder.remove_inner(SPOOL);
    Ok(written)
}

/// The state of a recording when the workload has ended.
struct Played {
    state: InitialState,
    flags: Option<TimedFlags>,
    tasks: Vec<(u32, Vec<u8>)>,
    start: u64,
    end: End,
    elapsed: Duration,
    /// The state at the end.
    after: Result<InitialState, RecordError>,
    warnings: Vec<String>,
}

/// Reads the state, runs the workload and reads the state again. From the workload's start on nothing is an error.
fn play(
    options: &Options,
    instance: &Instance,
    spool: &mut Spool,
    interrupts: &Interrupts,
    tell: &mut dyn FnMut(Step),
) -> Result<Played, RecordError> {
    tell(Step::State);
    instance.switch(true)?;
    let tasks = state::tasks();
    state::texts()?.zoneinfo.iter().for_each(state::turn_over);
    let flags = TimedFlags::read()?;
    let state = state::texts()?;
    let start = state::now();
    let begin = Instant::now();
    let mut workload = Workload::start(&options.command, options.identity.as_ref()).map_err(|error| {
        let program = options.command.first().cloned().unwrap_or_default();
        RecordError::Command { program, error }
    })?;
    let mut look = || {
        let goes_on = spool.goes_on();
        let progress = spool.progress();
        tell(Step::Running(progress.events.load(Ordering::Relaxed), progress.lost.load(Ordering::Relaxed)));
        goes_on
    };
    let waited = workload.wait(options.duration, interrupts, &mut look);
    let stopped = instance.switch(false);
    let (elapsed, after) = (begin.elapsed(), state::texts());
    // The command ends as well, but its end is no part of the recording.
    let ended = workload.end(PATIENCE, interrupts, &mut look);
    let deaf = matches!(ended, Ok(true)).then(|| "the command did not end by SIGTERM, so SIGKILL ended it".to_owned());
    let mut warnings: Vec<String> = stopped.err().map(|error| error.to_string()).into_iter().chain(deaf).collect();
    let lost = waited.as_ref().err().or(ended.as_ref().err());
    warnings.extend(lost.map(|error| format!("cannot wait for the command: {error}")));
    let end = waited.unwrap_or(End::Failed);
    Ok(Played { state, flags, tasks, start, end, elapsed, after, warnings })
}

/// Switches the events on that there are, and returns their descriptions.
fn enable(instance: &Instance, inner: bool) -> Result<Vec<String>, RecordError> {
    let inner = INNER.iter().copied().filter(|_| inner);
    let probe = instance.probe_event();
    let mut formats = Vec::new();
    for event in EVENTS.iter().map(|event| event.name).chain(inner).chain(probe.as_deref()) {
        formats.extend(instance.enable(event)?);
    }
    Ok(formats)
}

/// Writes the texts of the state at the end: all of them or none, since those that are there are believed.
fn write_after(state: &InitialState, folder: &Folder) -> Result<(), RecordError> {
    let written = write_texts(state, folder);
    if written.is_err() {
        // The first error says more than one about cleaning up after it.
        let _ = folder.remove_inner(framewright_trace::AFTER);
    }
    written
}

fn write_texts(state: &InitialState, folder: &Folder) -> Result<(), RecordError> {
    let fail = |doing, path: PathBuf| move |error| RecordError::at(doing, &path, error);
    let after = folder.make_inner(framewright_trace::AFTER, Access::Private);
    let after = after.map_err(fail("make", folder.path().join(framewright_trace::AFTER)))?;
    for file in StateFile::ALL {
        if let Some(text) = state.text(file) {
            let written = NewFile::begin(&after, file.name(), Access::Private).and_then(|mut new| {
                io::Write::write_all(&mut new, text.as_bytes())?;
                new.finish()
            });
            written.map_err(fail("write", after.path().join(file.name())))?;
        }
    }
    Ok(())
}
