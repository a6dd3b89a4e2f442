//! Follows a log and hands out each report when it is complete.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use framewright_report::read::Reader;
use framewright_report::report::Report;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// The kernel's log.
pub(super) const KMSG: &str = "/dev/kmsg";
/// A pause after which a report is complete, in seconds: the kernel prints one at a stretch.
const PAUSE: i64 = 1;
/// Longest record or piece that is read at once; the kernel's are at most 8 KiB.
const PIECE: usize = 1 << 16;

/// Follows a log to its end; the kernel's has none. Begins after what `/dev/kmsg` has already.
#[allow(clippy::disallowed_methods, reason = "opened to read")]
pub(super) fn follow(path: &Path, seen: &mut dyn FnMut(Report) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let name = path.display();
    let mut log =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).with_context(|| {
            format!("cannot follow {name}; dmesg --follow | framewright why --watch /dev/stdin is another way")
        })?;
    if path == Path::new(KMSG) {
        log.seek(SeekFrom::End(0)).with_context(|| format!("cannot find the end of {name}"))?;
    }
    let (mut reader, mut ended) = (Reader::default(), Vec::new());
    let (mut piece, mut rest) = (vec![0; PIECE], Vec::new());
    loop {
        let pause = Timespec { tv_sec: PAUSE, tv_nsec: 0 };
        let ready = match poll(&mut [PollFd::new(&log, PollFlags::IN)], Some(&pause)) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result.map_err(io::Error::from)?,
        };
        if ready == 0 {
            reader.finish(&mut ended);
        } else {
            match log.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => {
                    rest.extend_from_slice(&piece[..read]);
                    let end = rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                    let lines = String::from_utf8_lossy(&rest[..end]).into_owned();
                    // After a record come lines with its device, which begin with a blank.
                    let kernels = |line: &&str| path != Path::new(KMSG) || !line.starts_with(' ');
                    lines.lines().filter(kernels).for_each(|line| reader.add(line, &mut ended));
                    rest.drain(..end);
                    if rest.len() > PIECE {
                        rest.clear();
                    }
                }
                // The kernel has overwritten what was not read yet.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
            }
        }
        ended.drain(..).try_for_each(&mut *seen)?;
    }
    reader.add(&String::from_utf8_lossy(&rest), &mut ended);
    reader.finish(&mut ended);
    ended.into_iter().try_for_each(seen)
}
