//! The recording as it stays: spooled pages become a compact trace, with the state before it.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use framewright::pfn::CpuId;
use framewright_trace::compact::CompactWriter;
use framewright_trace::error::{TraceError, file_name};
use framewright_trace::input;
use framewright_trace::raw::{Decoder, PageLayout, RawReader};
use framewright_trace::record::Quality;
use framewright_trace::state::InitialState;

use super::RecordError;
use super::state::{Events, TimedFlags};

/// Everything that was recorded, to be put together.
pub(super) struct Recorded {
    pub(super) layout: PageLayout,
    pub(super) page_size: usize,
    pub(super) decoder: Decoder,
    pub(super) files: Vec<(u16, PathBuf)>,
    /// The names of tasks that there were at the start.
    pub(super) tasks: Vec<(u32, Vec<u8>)>,
    /// The texts of the state, and its flags.
    pub(super) state: InitialState,
    pub(super) flags: Option<TimedFlags>,
    /// The moment from which events count.
    pub(super) start: u64,
    /// Lost events by the kernel's count.
    pub(super) lost: u64,
}

/// Writes the compact trace; `progress` hears how many events were written. It comes into being only when it is whole.
pub(super) fn write(recorded: Recorded, path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Quality, RecordError> {
    let partial = path.with_extension("partial");
    let written = write_partial(recorded, path, &partial, progress);
    if written.is_err() {
        // The first error says more than one about cleaning up after it.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write_partial(
    recorded: Recorded,
    path: &Path,
    partial: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Quality, RecordError> {
    let Recorded { layout, page_size, decoder, files, tasks, mut state, flags, start, lost } = recorded;
    let mut sources = Vec::new();
    for (cpu, file) in files {
        sources.push((CpuId(cpu), format!("the pages of CPU {cpu}"), input::open(&file)?));
    }
    let mut reader = RawReader::new(layout, page_size, decoder, sources);
    tasks.iter().for_each(|(pid, name)| reader.name_task(*pid, name));
    let mut events = Events::default();
    let mut next = reader.next().transpose()?;
    while let Some(record) = next.filter(|record| record.time < start) {
        events.note(&record);
        next = reader.next().transpose()?;
    }
    state.kpageflags = flags.map(|flags| flags.after(&events));
    let name = file_name(path);
    let fail = |error| RecordError::Trace(TraceError::new(&name, error));
    let mut writer = CompactWriter::new(BufWriter::new(File::create(partial).map_err(fail)?), &state).map_err(fail)?;
    let mut quality = Quality::default();
    while let Some(record) = next {
        quality.count(&record.kind);
        writer.push(record, reader.comms()).map_err(fail)?;
        if quality.records().is_multiple_of(1 << 16) {
            progress(quality.records());
        }
        next = reader.next().transpose()?;
    }
    let read = reader.quality();
    let lost_by_pages = read.lost_events;
    // What was read before the start is no part of the trace, but what was lost then may be missed in it.
    quality = Quality { by_kind: quality.by_kind, failed_allocs: quality.failed_allocs, ..read.clone() };
    if lost > lost_by_pages {
        // Pages that never came do not say what was on them.
        quality.count_lost(Some(lost - lost_by_pages));
    }
    let file = writer.finish(reader.comms(), &quality).map_err(fail)?;
    let file = file.into_inner().map_err(|error| fail(error.into_error()))?;
    file.sync_all().map_err(fail)?;
    fs::rename(partial, path).map_err(fail)?;
    Ok(quality)
}
