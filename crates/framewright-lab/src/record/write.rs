//! The final form of a recording: spooled pages become a compact trace, with the state before it.
//!
//! The trace ends where one CPU's pages end: later events of other CPUs make no sense without that CPU's.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use framewright::units::CpuId;
use framewright_trace::error::{TraceError, file_name};
use framewright_trace::fwt::CompactWriter;
use framewright_trace::input::{Source, decompress};
use framewright_trace::output::{Access, Folder, NewFile};
use framewright_trace::record::{Quality, Record};
use framewright_trace::ring_buffer::{Decoder, Format, Mobilities, PageLayout, RawFault, RawReader};
use framewright_trace::state::{InitialState, StateFile};

use super::error::RecordError;
use super::spool::{Packed, page_file};
use super::state::{Events, TimedFlags};

/// Everything that was recorded, to be put together.
pub(super) struct Recorded {
    /// The kernel's description of the pages, and of each event.
    pub(super) header_page: String,
    pub(super) formats: Vec<String>,
    pub(super) page_size: usize,
    /// Where the pages are.
    pub(super) spool: Folder,
    pub(super) files: Vec<Packed>,
    /// Why some of them are cut, or all of them end early.
    pub(super) cut: Option<RecordError>,
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
///
/// Returns its bytes, too.
pub(super) fn write(
    recorded: &mut Recorded,
    folder: &Folder,
    name: &OsStr,
    progress: &mut dyn FnMut(u64),
) -> Result<(Quality, u64), RecordError> {
    let layout = PageLayout::parse(&recorded.header_page).map_err(described)?;
    let formats = recorded.formats.iter().map(|text| Format::parse(text)).collect::<Result<Vec<_>, _>>();
    let decoder = decoder(&formats.map_err(described)?, &recorded.state)?;
    let Recorded { page_size, files, tasks, flags, start, lost, .. } = &*recorded;
    let (page_size, start, lost, mut state) = (*page_size, *start, *lost, recorded.state.clone());
    let is_cut = files.iter().any(|file| file.is_cut);
    let is_over = Arc::new(AtomicBool::new(false));
    let sources =
        files.iter().map(|file| source(&recorded.spool, file, &is_over)).collect::<Result<_, RecordError>>()?;
    let mut reader = RawReader::new(layout, page_size, decoder, sources);
    tasks.iter().for_each(|(pid, name)| reader.name_task(*pid, name));
    let mut events = Events::default();
    let mut next = read(&mut reader, &is_over)?;
    while let Some(record) = next.filter(|record| record.time < start) {
        events.note(&record);
        next = read(&mut reader, &is_over)?;
    }
    state.kpageflags = flags.as_ref().map(|flags| flags.after(&events));
    if next.is_none()
        && is_cut
        && let Some(cut) = recorded.cut.take()
    {
        return Err(cut);
    }
    let shown = file_name(&folder.path().join(name));
    let fail = |error| RecordError::Trace(TraceError::new(&shown, error));
    let file = NewFile::begin(folder, name, Access::Private).map_err(fail)?;
    let mut writer = CompactWriter::new(BufWriter::new(file), &state).map_err(fail)?;
    let mut quality = Quality::default();
    while let Some(record) = next {
        quality.count(&record.kind);
        writer.push(record, reader.comms()).map_err(fail)?;
        if quality.records().is_multiple_of(1 << 16) {
            progress(quality.records());
        }
        next = read(&mut reader, &is_over)?;
    }
    let lost_by_pages = reader.quality().lost_events;
    // Events before the start are no part of the trace, but events lost then may be missed in it.
    quality = Quality { by_kind: quality.by_kind, failed_allocs: quality.failed_allocs, ..reader.quality().clone() };
    if lost > lost_by_pages && !is_cut {
        // Pages that never came do not say what was on them.
        quality.count_lost(Some(lost - lost_by_pages));
    }
    let file = writer.finish(reader.comms(), &quality).map_err(fail)?;
    let file = file.into_inner().map_err(|error| fail(error.into_error()))?;
    let bytes = file.finish().map_err(fail)?;
    Ok((quality, bytes))
}

/// The decoder of these events, with the mobilities of this state.
pub(super) fn decoder(formats: &[Format], state: &InitialState) -> Result<Decoder, RecordError> {
    let mobilities = state.text(StateFile::PageTypeInfo).map(Mobilities::parse).transpose().map_err(described)?;
    Decoder::new(formats, mobilities.unwrap_or_default()).map_err(described)
}

pub(super) fn described(fault: RawFault) -> RecordError {
    RecordError::Trace(TraceError::new("what the kernel says of its events", fault))
}

/// The pages of a CPU.
fn source(spool: &Folder, file: &Packed, is_over: &Arc<AtomicBool>) -> Result<(CpuId, String, Source), RecordError> {
    let name = page_file(file.cpu);
    let fail = |error| TraceError::new(&file_name(&spool.path().join(&name)), error);
    let pages = spool.read(&name).and_then(decompress).map_err(fail)?;
    let pages = if file.is_cut { Box::new(Cut { pages, is_over: is_over.clone() }) } else { pages };
    Ok((CpuId(file.cpu), format!("the pages of CPU {}", file.cpu), pages))
}

/// The next record, unless the trace is over.
fn read(reader: &mut RawReader<Source>, is_over: &AtomicBool) -> Result<Option<Record>, RecordError> {
    match reader.next().transpose() {
        Err(_) if is_over.load(Ordering::Relaxed) => Ok(None),
        next => Ok(next?),
    }
}

/// Pages whose last ones are not there: their end is an error, and noted.
struct Cut {
    pages: Source,
    is_over: Arc<AtomicBool>,
}

impl Read for Cut {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.pages.read(bytes) {
            Ok(read) if read > 0 || bytes.is_empty() => Ok(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            _ => {
                self.is_over.store(true, Ordering::Relaxed);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use framewright_trace::Trace;

    use super::super::spool::tests::HEADER_PAGE;
    use super::*;

    pub(in crate::record) const FREE: &str = "name: mm_page_free
ID: 1
format:
field:unsigned short common_type; offset:0; size:2; signed:0;
field:int common_pid; offset:4; size:4; signed:1;
field:unsigned long pfn; offset:8; size:8; signed:0;
field:unsigned int order; offset:16; size:4; signed:0;";

    /// A page with one event, a free of the frame that is its time.
    fn page(time: u64) -> Vec<u8> {
        let event = [&6_u32.to_le_bytes()[..], &1_u64.to_le_bytes(), &time.to_le_bytes(), &[0; 8]].concat();
        let mut page = [&time.to_le_bytes()[..], &(event.len() as u64).to_le_bytes(), &event].concat();
        page.resize(4096, 0);
        page
    }

    /// The spool of a CPU with events at these times, without its last `missing` bytes.
    pub(in crate::record) fn packed(folder: &Path, cpu: u16, times: &[u64], missing: Option<usize>) -> Packed {
        let path = folder.join(format!("cpu{cpu}.gz"));
        // Stored, so that bytes of the file are those of the pages.
        let mut out = GzEncoder::new(Vec::new(), Compression::none());
        times.iter().for_each(|time| out.write_all(&page(*time)).unwrap());
        let bytes = out.finish().unwrap();
        let length = bytes.len().saturating_sub(missing.unwrap_or(0));
        fs::write(&path, &bytes[..length]).unwrap();
        Packed { cpu, is_cut: missing.is_some() }
    }

    #[test]
    fn a_trace_ends_where_a_cpu_is_cut() {
        let whole = [10, 30, 50, 70];
        // Bytes that are missing of the second CPU's file; times of the trace, nothing if there is none.
        let table: [(Option<usize>, Option<&[u64]>); 4] = [
            (None, Some(&[10, 20, 30, 40, 50, 60, 70])),
            // The last whole page may have been needed to know that no page follows.
            (Some(100), Some(&[10, 20, 30])),
            (Some(0), Some(&[10, 20, 30, 40, 50])),
            (Some(usize::MAX), None),
        ];
        for (missing, times) in table {
            let folder = tempfile::tempdir().unwrap();
            let files = vec![packed(folder.path(), 0, &whole, None), packed(folder.path(), 1, &[20, 40, 60], missing)];
            let mut recorded = Recorded {
                header_page: HEADER_PAGE.to_owned(),
                formats: vec![FREE.to_owned()],
                page_size: 4096,
                spool: Folder::open(folder.path(), Access::Private).unwrap(),
                files,
                cut: missing.map(|_| RecordError::Full("DIR".to_owned())),
                tasks: Vec::new(),
                state: InitialState::default(),
                flags: None,
                start: 5,
                lost: 3,
            };
            let path = folder.path().join("trace.fwt");
            let opened = Folder::open(folder.path(), Access::Private).unwrap();
            match (write(&mut recorded, &opened, "trace.fwt".as_ref(), &mut |_| ()), times) {
                (Ok((quality, bytes)), Some(times)) => {
                    let found: Vec<u64> = Trace::open(&path).unwrap().map(|record| record.unwrap().time).collect();
                    assert_eq!(found, times, "{missing:?}");
                    assert_eq!(bytes, fs::metadata(&path).unwrap().len());
                    // Events lost after the end do not count as lost.
                    assert_eq!(quality.lost_events, if missing.is_some() { 0 } else { 3 });
                }
                (Err(RecordError::Full(_)), None) => assert!(!path.exists()),
                (other, _) => panic!("{missing:?}: {other:?}"),
            }
        }
    }
}
