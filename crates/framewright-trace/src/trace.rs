//! Opens a trace of any form, and converts one into a `*.fwt`.
//!
//! The first bytes tell the form of a file, not its name, with one exception: a `*.fwt` is never taken for text. So a
//! cut or damaged one is reported as such. Names matter only to find the files in a directory.
//!
//! A directory must have exactly one trace; of two, the user has to name one. The files of `/proc` are read only with
//! a directory, because beside a text that is named by itself they could be of another day.
//!
//! Rejected: reading text in a second thread. The parser keeps up with the decompression, and the `*.fwt` is there
//! where a second matters.

use std::fs;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

use crate::error::{Reason, Result, TraceError, file_name};
use crate::fwt::{self, CompactReader, CompactWriter};
use crate::input::{self, Source};
use crate::output::{Access, NewFile};
use crate::record::{Comms, Quality, Record};
use crate::state::InitialState;
use crate::text::{Numbering, TextOptions, TextReader};

/// Names that the text of a trace has in a directory of its own.
const TEXT_NAMES: [&str; 3] = ["trace.txt", "trace.txt.zst", "trace.txt.gz"];

/// Bytes of a text that are read ahead, to find the kernel.
const FIRST: u64 = 1 << 20;

/// Name of the folder beside a trace with the files of `/proc` from just after it.
pub const AFTER: &str = "after";

/// Where a trace is.
///
/// Any path is one: `Trace::open` and all that replays a trace take it as it is.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// A file or a directory, as [`Trace::open_with`] describes them.
    Path(&'a Path),
    /// The bytes of a `*.fwt` that a program has built in, and the name that reports give it.
    BuiltIn {
        /// The name in reports and errors.
        name: &'static str,
        /// The whole file.
        bytes: &'static [u8],
    },
}

impl Place<'_> {
    /// The name in reports and errors, with control characters escaped.
    pub(crate) fn name(self) -> String {
        match self {
            Place::Path(path) => file_name(path),
            Place::BuiltIn { name, .. } => name.to_owned(),
        }
    }
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for Place<'a> {
    fn from(path: &'a P) -> Self {
        Place::Path(path.as_ref())
    }
}

/// The records of a trace, one after the other, and the state before them.
///
/// After an error there is nothing more.
pub struct Trace {
    reader: Reader,
    after: Option<InitialState>,
}

enum Reader {
    Text(Box<TextReader<Source>>, Box<InitialState>),
    Compact(Box<CompactReader<Source>>),
}

impl Trace {
    /// Opens a trace with the default options.
    ///
    /// # Errors
    /// See [`Trace::open_with`].
    pub fn open<'a>(place: impl Into<Place<'a>>) -> Result<Trace> {
        Trace::open_with(place, &TextOptions::default())
    }

    /// Opens a trace, with `options` for the reading of a text.
    ///
    /// `place` is the bytes of a `*.fwt`, or the path of one of these:
    ///
    /// - a `*.fwt`;
    /// - the text of a trace, compressed or not. Then nothing is known of the state;
    /// - a directory with one `*.fwt`;
    /// - a directory with one `trace.txt`, `trace.txt.zst` or `trace.txt.gz`, and any of `zoneinfo`, `buddyinfo`,
    ///   `pagetypeinfo`, `vmstat`, `version`, `osrelease` and `uname` (with `.txt` or not) and `kpageflags`. All may
    ///   be compressed.
    ///
    /// A folder `after` beside the trace may hold the same files from just after it.
    ///
    /// Addresses in a text are checked against the zones' frames where these are known and `options` does not say.
    ///
    /// # Errors
    /// There is no trace or more than one, or a file cannot be read or is malformed.
    pub fn open_with<'a>(place: impl Into<Place<'a>>, options: &TextOptions) -> Result<Trace> {
        let path = match place.into() {
            Place::Path(path) => path,
            Place::BuiltIn { name, bytes } => {
                let reader = CompactReader::new(Box::new(bytes) as Source, name)?;
                return Ok(Trace { reader: Reader::Compact(Box::new(reader)), after: None });
            }
        };
        let name = file_name(path);
        let metadata = fs::metadata(path).map_err(|error| TraceError::new(&name, error))?;
        if !metadata.is_dir() {
            return Trace::open_file(path, InitialState::default(), options);
        }
        let file = only_trace(path)?;
        let state = if file.extension().is_some_and(|ending| ending == "fwt") {
            InitialState::default()
        } else {
            InitialState::read(path)?
        };
        let after = path.join(AFTER);
        let after = if after.is_dir() { Some(InitialState::read(&after)?) } else { None };
        Ok(Trace { after, ..Trace::open_file(&file, state, options)? })
    }

    fn open_file(path: &Path, state: InitialState, options: &TextOptions) -> Result<Trace> {
        let name = file_name(path);
        let fail = |error| TraceError::new(&name, error);
        let mut source = input::open(path)?;
        let mut start = Vec::new();
        (&mut source).take(fwt::MAGIC.len() as u64).read_to_end(&mut start).map_err(fail)?;
        let is_compact = start == fwt::MAGIC || path.extension().is_some_and(|ending| ending == "fwt");
        let source: Source = Box::new(io::Cursor::new(start).chain(source));
        let reader = if is_compact {
            Reader::Compact(Box::new(CompactReader::new(source, &name)?))
        } else {
            let (source, options) = informed(source, &state, options).map_err(fail)?;
            Reader::Text(Box::new(TextReader::new(source, &name, &options)), Box::new(state))
        };
        Ok(Trace { reader, after: None })
    }

    /// The state before the first record, as far as it is known.
    pub fn initial(&self) -> &InitialState {
        match &self.reader {
            Reader::Text(_, state) => state,
            Reader::Compact(reader) => reader.initial(),
        }
    }

    /// The state after the last record, as far as it is known.
    ///
    /// It comes from files of `/proc` in the folder `after`, if the trace was opened as a directory.
    pub fn after(&self) -> Option<&InitialState> {
        self.after.as_ref()
    }

    /// The names of tasks so far.
    pub fn comms(&self) -> &Comms {
        match &self.reader {
            Reader::Text(reader, _) => reader.comms(),
            Reader::Compact(reader) => reader.comms(),
        }
    }

    /// The quality of the trace; complete once the last record has been read.
    pub fn quality(&self) -> &Quality {
        match &self.reader {
            Reader::Text(reader, _) => reader.quality(),
            Reader::Compact(reader) => reader.quality(),
        }
    }
}

impl Iterator for Trace {
    type Item = Result<Record>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record>> {
        match &mut self.reader {
            Reader::Text(reader, _) => reader.next(),
            Reader::Compact(reader) => reader.next(),
        }
    }
}

/// Completes the options with the kernel that a text's start and the files reveal.
///
/// Flags of the first requests can need the evidence of later ones. So the start is read ahead, and returned unread.
fn informed(mut source: Source, state: &InitialState, options: &TextOptions) -> io::Result<(Source, TextOptions)> {
    let mut start = Vec::new();
    (&mut source).take(FIRST).read_to_end(&mut start)?;
    let mut options = *options;
    options.end_pfn = options.end_pfn.or(state.zoneinfo.as_ref().map(|zones| zones.end_pfn()).filter(|end| end.0 > 0));
    let recorded = state.pagetypeinfo.as_ref().map(|types| types.pageblock_order);
    options.pageblock_order = options.pageblock_order.or(recorded);
    if !options.kernels.is_known() {
        options.kernels = options.kernels.and(state.kernels());
        if options.numbering.is_none() && state.kernel.is_some() {
            options.numbering = state.kernel.map(Numbering::of);
        }
        options.kernels = TextReader::new(&start[..], "", &TextOptions { lenient: true, ..options }).kernels();
    }
    Ok((Box::new(io::Cursor::new(start).chain(source)), options))
}

/// The one trace in a directory.
fn only_trace(directory: &Path) -> Result<PathBuf> {
    let name = file_name(directory);
    let fail = |error| TraceError::new(&name, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let is_text = path.file_name().is_some_and(|name| TEXT_NAMES.iter().any(|&text| name == text));
        if is_text || path.extension().is_some_and(|ending| ending == "fwt") {
            found.push(path);
        }
    }
    found.sort();
    match found.len() {
        0 => Err(TraceError::new(&name, Reason::NoTrace)),
        1 => Ok(found.swap_remove(0)),
        _ => {
            let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
            let names: Vec<_> = names.iter().map(|name| file_name(Path::new(name))).collect();
            Err(TraceError::new(&name, Reason::SeveralTraces(names.join(", "))))
        }
    }
}

/// Reads the trace at `input` and writes it as a `*.fwt` to `output`.
///
/// `output` appears only when it is whole. Until then the data are in a temporary file beside it.
///
/// # Errors
/// The trace cannot be read or is malformed, or `output` cannot be written.
pub fn convert<'a>(input: impl Into<Place<'a>>, output: &Path, options: &TextOptions) -> Result<Quality> {
    let mut trace = Trace::open_with(input, options)?;
    let name = file_name(output);
    let fail = |error| TraceError::new(&name, error);
    let file = NewFile::create(output, Access::Shared).map_err(fail)?;
    let mut writer = CompactWriter::new(BufWriter::new(file), trace.initial()).map_err(fail)?;
    while let Some(record) = trace.next() {
        writer.push(record?, trace.comms()).map_err(fail)?;
    }
    let file = writer.finish(trace.comms(), trace.quality()).map_err(fail)?;
    let file = file.into_inner().map_err(|error| fail(error.into_error()))?;
    file.finish().map_err(fail)?;
    Ok(trace.quality().clone())
}
