//! What a kept spool holds besides its pages, so that `framewright convert` makes a trace of it later.
//!
//! A recorder that cannot write the trace, mostly because the disk is full, keeps the pages as the kernel had them.
//! They mean nothing without the descriptions of the events, the state of memory before them, and the moment from which
//! they count. These are written beside the pages as one file of JSON, packed; the part of a trace that did not fit has
//! been removed by then, and is larger.
//!
//! The file is read as foreign data: every text goes through the reader that the kernel's own goes through, and
//! lengths are limited.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use framewright_trace::error::{Reason, TraceError, file_name};
use framewright_trace::input;
use framewright_trace::output::{Access, Folder, NewFile};
use framewright_trace::record::Quality;
use framewright_trace::state::{InitialState, StateFile};
use serde::{Deserialize, Serialize};

use super::error::RecordError;
use super::spool::Packed;
use super::state::{KeptFlags, TimedFlags};
use super::write::{self, Recorded};

/// Version of the file.
const SCHEMA: &str = "framewright-spool/1";
/// Name of the file in the spool.
const NAME: &str = "recording.json.gz";
/// Bytes that a page of the buffers may have.
const PAGES: std::ops::RangeInclusive<usize> = 1 << 9..=1 << 24;
/// Bytes of the file before it is packed, at most.
const LIMIT: u64 = 1 << 30;

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptRecording {
    schema: String,
    /// Bytes of a page of the buffers.
    page_size: usize,
    /// The kernel's description of these pages, and of each event.
    header_page: String,
    formats: Vec<String>,
    /// CPUs with pages, and whether their last ones are missing.
    cpus: Vec<(u16, bool)>,
    /// Names of tasks at the start.
    tasks: Vec<(u32, String)>,
    /// Texts of the state, by name.
    state: BTreeMap<String, String>,
    /// Flags of all frames: runs of equal ones, and when each stretch of frames was read.
    flags: Option<KeptFlags>,
    /// The moment from which events count.
    start: u64,
    /// Lost events by the kernel's count.
    lost: u64,
}

/// Writes beside the pages of `recorded` what they mean.
pub(super) fn keep(recorded: &Recorded) -> io::Result<()> {
    let texts = StateFile::ALL.into_iter();
    let texts = texts.filter_map(|file| Some((file.name().to_owned(), recorded.state.text(file)?.to_owned())));
    let name = |(pid, name): &(u32, Vec<u8>)| (*pid, String::from_utf8_lossy(name).into_owned());
    let kept = KeptRecording {
        schema: SCHEMA.to_owned(),
        page_size: recorded.page_size,
        header_page: recorded.header_page.clone(),
        formats: recorded.formats.clone(),
        cpus: recorded.files.iter().map(|file| (file.cpu, file.is_cut)).collect(),
        tasks: recorded.tasks.iter().map(name).collect(),
        state: texts.collect(),
        flags: recorded.flags.as_ref().map(TimedFlags::to_kept),
        start: recorded.start,
        lost: recorded.lost,
    };
    let mut out = GzEncoder::new(NewFile::begin(&recorded.spool, NAME, Access::Private)?, Compression::fast());
    out.write_all(&serde_json::to_vec(&kept)?)?;
    out.finish()?.finish().map(drop)
}

/// Whether a path is a spool that a recorder kept.
pub fn is_kept(path: &Path) -> bool {
    path.join(NAME).is_file()
}

/// Makes a trace of a kept spool, and returns the trace's events and losses.
///
/// # Errors
/// The spool is damaged or of another version, or the trace cannot be written. The spool stays as it is.
pub fn convert(spool: &Path, trace: &Path) -> Result<Quality, RecordError> {
    let mut recorded = read(spool)?;
    let fail = |error| RecordError::at("write", trace, error);
    let (folder, name) = Folder::of(trace, Access::Private).map_err(fail)?;
    write::write(&mut recorded, &folder, &name, &mut |_| ()).map(|(quality, _)| quality)
}

fn read(spool: &Path) -> Result<Recorded, RecordError> {
    let path = spool.join(NAME);
    let damaged = |why: String| RecordError::Damaged { path: path.display().to_string(), why };
    let folder = Folder::to_read(spool).map_err(|error| RecordError::at("read", spool, error))?;
    let bytes = read_whole(&folder, &path)?;
    let kept: KeptRecording = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if kept.schema != SCHEMA {
        return Err(damaged(format!("it is {:?}, and this program reads {SCHEMA:?}", kept.schema)));
    }
    if !PAGES.contains(&kept.page_size) {
        return Err(damaged(format!("a page has {} bytes", kept.page_size)));
    }
    let mut state = InitialState::default();
    for file in StateFile::ALL {
        if let Some(text) = kept.state.get(file.name()) {
            state.set(file, text.clone().into_bytes(), file.name())?;
        }
    }
    let flags = kept.flags.map(TimedFlags::from_kept).transpose();
    Ok(Recorded {
        header_page: kept.header_page,
        formats: kept.formats,
        page_size: kept.page_size,
        spool: folder,
        files: kept.cpus.into_iter().map(|(cpu, is_cut)| Packed { cpu, is_cut }).collect(),
        cut: Some(damaged("the pages of a CPU end before the recording begins".to_owned())),
        tasks: kept.tasks.into_iter().map(|(pid, name)| (pid, name.into_bytes())).collect(),
        state,
        flags: flags.map_err(|fault| TraceError::new(&file_name(&path), fault))?,
        start: kept.start,
        lost: kept.lost,
    })
}

/// Reads the file of a spool, unpacked.
fn read_whole(spool: &Folder, path: &Path) -> Result<Vec<u8>, TraceError> {
    let fail = |error: io::Error| TraceError::new(&file_name(path), error);
    let mut bytes = Vec::new();
    let source = spool.read(NAME).and_then(input::decompress).map_err(fail)?;
    source.take(LIMIT + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > LIMIT {
        return Err(TraceError::new(&file_name(path), Reason::TooLarge(LIMIT)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use framewright_trace::Trace;

    use super::super::spool::tests::HEADER_PAGE;
    use super::super::write::tests::{FREE, packed};
    use super::*;

    const ZONEINFO: &str = "Node 0, zone   Normal\n  pages free     4096\n        min      0\n        low      0\n        high     0\n        \
                            spanned  4096\n        present  4096\n        managed  4096\n  start_pfn:           0\n";

    /// A spool of two CPUs, the second of which is cut where `missing` says how many of its bytes are.
    fn recorded(spool: &Path, missing: Option<usize>) -> Recorded {
        let mut state = InitialState::default();
        state.set(StateFile::ZoneInfo, ZONEINFO.as_bytes().to_vec(), "zoneinfo").unwrap();
        let flags = KeptFlags { runs: vec![(100, 0), (3996, 1 << 10)], times: vec![3] };
        Recorded {
            header_page: HEADER_PAGE.to_owned(),
            formats: vec![FREE.to_owned()],
            page_size: 4096,
            spool: Folder::open(spool, Access::Private).unwrap(),
            files: vec![packed(spool, 0, &[10, 30, 50, 70], None), packed(spool, 1, &[20, 40, 60], missing)],
            cut: missing.map(|_| RecordError::Full("DIR".to_owned())),
            tasks: vec![(1, b"init".to_vec())],
            state,
            flags: Some(TimedFlags::from_kept(flags).unwrap()),
            start: 5,
            lost: 3,
        }
    }

    /// A trace that is made later is the one that did not fit.
    #[test]
    fn a_kept_spool_becomes_the_same_trace() {
        for missing in [None, Some(100)] {
            let folder = tempfile::tempdir().unwrap();
            let mut recorded = recorded(folder.path(), missing);
            let [now, later] = ["now.fwt", "later.fwt"].map(|name| folder.path().join(name));
            assert!(!is_kept(folder.path()));
            keep(&recorded).unwrap();
            assert!(is_kept(folder.path()));
            let opened = Folder::open(folder.path(), Access::Private).unwrap();
            let (quality, _) = write::write(&mut recorded, &opened, "now.fwt".as_ref(), &mut |_| ()).unwrap();
            assert_eq!(convert(folder.path(), &later).unwrap(), quality);
            assert!(quality.records() > 2 && fs::read(&later).unwrap() == fs::read(&now).unwrap(), "{missing:?}");
            let trace = Trace::open(&later).unwrap();
            assert!(trace.initial().zoneinfo.is_some() && trace.initial().kpageflags.is_some());
        }
    }

    #[test]
    fn what_no_recorder_left_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (file, trace) = (folder.path().join(NAME), folder.path().join("trace.fwt"));
        keep(&recorded(folder.path(), None)).unwrap();
        let bytes = input::read_whole(&file, LIMIT).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let mut told = String::new();
        let others = [
            "{}".to_owned(),
            text.replace("spool/1", "spool/2"),
            text.replace("\"page_size\":4096", "\"page_size\":0"),
            text.replace("field: u64 timestamp", "field: u64 time"),
            text.replace("zone   Normal", "zoo"),
            text.replace("ID: 1", "ID: one"),
            text.replace("[1,false]", "[7,false]"),
        ];
        for other in others {
            assert_ne!(other, text);
            fs::write(&file, other).unwrap();
            let error = convert(folder.path(), &trace).unwrap_err().to_string();
            told += &(error.replace(&folder.path().display().to_string(), "DIR") + "\n");
            assert!(!trace.exists(), "{error}");
        }
        insta::assert_snapshot!(told);
    }
}
