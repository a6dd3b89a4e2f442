//! The state of memory just before a trace's first event, from files in the formats of `/proc`.
//!
//! Each file is optional, and the replay decides what it can do without one. The texts are kept beside the values that
//! were read from them, so that a trace can be written again without loss.

use std::path::Path;

use crate::error::{Reason, Result, TraceError, file_name};
use crate::flags::{KernelVersion, Kernels};
use crate::input;
use crate::proc::{BuddyInfo, KPageFlags, PageTypeInfo, ProcFault, VmStat, ZoneInfo, text};

/// The largest text file of a state, in bytes; a machine with 1,024 CPUs needs 5 MB.
pub const TEXT_LIMIT: u64 = 16 << 20;

/// Files that name the kernel: `/proc/version`, `/proc/sys/kernel/osrelease`, or the output of `uname`.
const VERSION_FILES: [&str; 3] = ["version", "osrelease", "uname"];

/// The text files of a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StateFile {
    /// `/proc/zoneinfo`
    ZoneInfo,
    /// `/proc/buddyinfo`
    BuddyInfo,
    /// `/proc/pagetypeinfo`
    PageTypeInfo,
    /// `/proc/vmstat`
    VmStat,
}

impl StateFile {
    /// All of them.
    pub const ALL: [StateFile; 4] =
        [StateFile::ZoneInfo, StateFile::BuddyInfo, StateFile::PageTypeInfo, StateFile::VmStat];

    /// Name in `/proc`.
    pub const fn name(self) -> &'static str {
        match self {
            StateFile::ZoneInfo => "zoneinfo",
            StateFile::BuddyInfo => "buddyinfo",
            StateFile::PageTypeInfo => "pagetypeinfo",
            StateFile::VmStat => "vmstat",
        }
    }
}

/// The state before the first event, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InitialState {
    /// Zones.
    pub zoneinfo: Option<ZoneInfo>,
    /// Free blocks.
    pub buddyinfo: Option<BuddyInfo>,
    /// Free blocks and pageblocks by mobility.
    pub pagetypeinfo: Option<PageTypeInfo>,
    /// Counters.
    pub vmstat: Option<VmStat>,
    /// Flags of every frame.
    pub kpageflags: Option<KPageFlags>,
    /// Version of the kernel, from a file `version`, `osrelease` or `uname`.
    pub kernel: Option<KernelVersion>,
    texts: [Option<String>; StateFile::ALL.len()],
}

impl InitialState {
    /// Whether no file was there.
    pub fn is_empty(&self) -> bool {
        self.kpageflags.is_none() && self.texts.iter().all(Option::is_none)
    }

    /// The text that one of the files was read from.
    pub fn text(&self, file: StateFile) -> Option<&str> {
        self.texts[file as usize].as_deref()
    }

    /// Reads one of the files from its bytes, called `name` in messages.
    ///
    /// # Errors
    /// The file is malformed.
    pub fn set(&mut self, file: StateFile, bytes: Vec<u8>, name: &str) -> Result<()> {
        let text = text(&bytes, name)?;
        match file {
            StateFile::ZoneInfo => self.zoneinfo = Some(ZoneInfo::parse(text, name)?),
            StateFile::BuddyInfo => self.buddyinfo = Some(BuddyInfo::parse(text, name)?),
            StateFile::PageTypeInfo => self.pagetypeinfo = Some(PageTypeInfo::parse(text, name)?),
            StateFile::VmStat => self.vmstat = Some(VmStat::parse(text, name)?),
        }
        self.texts[file as usize] = Some(text.to_owned());
        Ok(())
    }

    /// Reads those of the files that are in `directory`.
    ///
    /// They have their names in `/proc`, with `.txt` or not, compressed or not.
    ///
    /// # Errors
    /// A file is there and cannot be read or is malformed.
    pub fn read(directory: &Path) -> Result<InitialState> {
        let mut state = InitialState::default();
        for file in StateFile::ALL {
            state.read_file(directory, file)?;
        }
        if let Some(path) = find(directory, "kpageflags", &["", ".bin"])? {
            state.kpageflags = Some(KPageFlags::parse(input::open(&path)?, &file_name(&path))?);
        }
        state.read_version(directory)?;
        Ok(state)
    }

    /// Reads one of the files, if it is in `directory`.
    ///
    /// # Errors
    /// It is there and cannot be read or is malformed.
    pub fn read_file(&mut self, directory: &Path, file: StateFile) -> Result<()> {
        match find(directory, file.name(), &["", ".txt"])? {
            Some(path) => self.set(file, input::read_whole(&path, TEXT_LIMIT)?, &file_name(&path)),
            None => Ok(()),
        }
    }

    /// Reads the file that names the kernel, if one is in `directory`.
    ///
    /// # Errors
    /// It is there and cannot be read or names none.
    pub fn read_version(&mut self, directory: &Path) -> Result<()> {
        for name in VERSION_FILES {
            if let Some(path) = find(directory, name, &["", ".txt"])? {
                let (bytes, file) = (input::read_whole(&path, TEXT_LIMIT)?, file_name(&path));
                let version = KernelVersion::find(text(&bytes, &file)?);
                self.kernel =
                    Some(version.ok_or_else(|| TraceError::new(&file, ProcFault::Empty("kernel's version")))?);
            }
        }
        Ok(())
    }

    /// Kernels that can have written these files: the one named, or those with such lines.
    pub fn kernels(&self) -> Kernels {
        if let Some(version) = self.kernel {
            return Kernels::of(version);
        }
        let has = |file, what: &str| self.text(file).is_some_and(|text| text.contains(what));
        // Lines that only newer kernels print, which narrow the kernel down.
        let (zones, types) = (StateFile::ZoneInfo, StateFile::PageTypeInfo);
        let mut kernels = Kernels::ALL;
        for (is_there, since) in [
            (has(types, "HighAtomic"), KernelVersion::new(4, 4)),
            (has(zones, "per-node stats"), KernelVersion::new(4, 8)),
            (has(zones, "\n        cma ") || has(zones, "\n        boost "), KernelVersion::new(5, 11)),
        ] {
            kernels = if is_there { kernels.since(since) } else { kernels };
        }
        if has(types, " Reserve ") { kernels.before(KernelVersion::new(4, 4)) } else { kernels }
    }
}

/// The file called `name` with any of `endings` and any ending of compressed files.
fn find(directory: &Path, name: &str, endings: &[&str]) -> Result<Option<std::path::PathBuf>> {
    for ending in endings {
        for packed in ["", ".zst", ".gz"] {
            let path = directory.join(format!("{name}{ending}{packed}"));
            match path.try_exists() {
                Ok(true) => return Ok(Some(path)),
                Ok(false) => {}
                Err(error) => return Err(TraceError::new(&file_name(&path), Reason::Io(error))),
            }
        }
    }
    Ok(None)
}
