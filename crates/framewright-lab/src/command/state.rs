//! `framewright state`: what a state of memory, from files of `/proc`, would serve.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use framewright_report::from_proc::report_of;
use framewright_trace::error::{Reason, TraceError};
use framewright_trace::state::{InitialState, StateFile};

use super::answers::{AnswerArgs, RequestArgs};
use super::output::quoted;

/// Say what a state of memory would serve, from buddyinfo and zoneinfo: of this machine now, or of a folder.
///
/// Two files are enough. With pagetypeinfo, which root may read, the types of free blocks are exact.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright state
      the largest orders that this machine would serve now
  framewright state --order 9 --gfp GFP_TRANSHUGE
      whether it would serve a huge page, zone by zone
  framewright state DIR --order 4 --gfp GFP_ATOMIC --ops state.ops
      the same of files that were copied; and as a list for framewright ops

docs/why.md says how to read the answer.")]
pub(crate) struct State {
    /// Folder with buddyinfo and zoneinfo, and perhaps pagetypeinfo and version.
    #[arg(value_name = "DIR", default_value = "/proc")]
    folder: PathBuf,
    /// Bytes of a frame [default: this machine's].
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    page_size: Option<u64>,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    answers: AnswerArgs,
}

fn page_size(text: &str) -> Result<u64, String> {
    let bytes: u64 = text.parse().map_err(|_| "is no number of bytes".to_owned())?;
    let fits = bytes.is_power_of_two() && (4_096..=1 << 20).contains(&bytes);
    if fits { Ok(bytes) } else { Err("is no size of a frame: 4096, 16384 and 65536 are".to_owned()) }
}

impl State {
    /// Reads the files that a state needs. pagetypeinfo of a running kernel is for root only, and may be missing.
    fn read(&self) -> Result<InitialState, TraceError> {
        let mut state = InitialState::default();
        state.read_file(&self.folder, StateFile::ZoneInfo)?;
        state.read_file(&self.folder, StateFile::BuddyInfo)?;
        match state.read_file(&self.folder, StateFile::PageTypeInfo) {
            Err(error) if matches!(error.reason(), Reason::Io(error) if error.kind() == ErrorKind::PermissionDenied) => {
            }
            result => result?,
        }
        state.read_version(&self.folder)?;
        Ok(state)
    }

    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let name = self.folder.display();
        let state = self.read().with_context(|| format!("cannot read the state in {name}"))?;
        let page_size = self.page_size.unwrap_or(rustix::param::page_size() as u64);
        let mut report = report_of(&state, Some(page_size)).map_err(|file| {
            anyhow!("{name} has no {file}; copy buddyinfo and zoneinfo of /proc into it, and pagetypeinfo if you can")
        })?;
        self.request.amend(&mut report)?;
        self.answers.answer_all(&[report], &format!("framewright state {}", quoted(&name.to_string())))
    }
}
