//! Room on the disk for the trace, reserved by a file of its own while the spool grows.
//!
//! The disk may be full when the trace is written, of the spool itself to begin with. So as much room as the trace will
//! need is taken from the start and given back just before it is written. When no more can be taken, the recording ends
//! while all of it can still be kept. A trace was 0.41 of its spool with 750,000 events of a busy machine. The state
//! before the first event is not in the spool; it was under 1 MiB for 24 GiB of memory.
//!
//! Rejected: asking how much is free, because the readers, the workload and all other programs take room meanwhile.

use std::fs::File;
use std::io;

use framewright_trace::output::{Access, Folder};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Bytes of a trace beside its events; also by how much is taken at least.
const STEP: u64 = 4 << 20;

/// The file. It has no name any more, so that it is gone when this is, or when the recorder is killed.
#[derive(Debug)]
pub(super) struct Room {
    file: File,
    held: u64,
}

impl Room {
    /// Makes the file, with room for a trace of few events.
    ///
    /// # Errors
    /// There is not that much.
    pub(super) fn take(folder: &Folder, name: &str) -> io::Result<Room> {
        let file = folder.create_new(name, Access::Private)?;
        folder.remove(name)?;
        let mut room = Room { file, held: 0 };
        room.grow(0)?;
        Ok(room)
    }

    /// Reserves enough for the trace of a spool of this many bytes.
    ///
    /// # Errors
    /// There is not that much.
    pub(super) fn grow(&mut self, spooled: u64) -> io::Result<()> {
        let needed = (spooled / 2).next_multiple_of(STEP) + STEP;
        if needed > self.held {
            match fallocate(&self.file, FallocateFlags::empty(), 0, needed) {
                // A file system that cannot hold room for a file; its writers find out when it is full.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.held = needed,
                // It is asked again soon.
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_held_in_steps_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Folder::open(folder.path(), Access::Private).unwrap();
        let mut room = Room::take(&opened, "room").unwrap();
        let table =
            [(0, STEP), (1, STEP), (2, 2 * STEP), (2 * STEP, 2 * STEP), (2 * STEP + 2, 3 * STEP), (0, 3 * STEP)];
        for (spooled, held) in table {
            room.grow(spooled).unwrap();
            assert_eq!(room.held, held, "{spooled}");
        }
        assert!(room.grow(1 << 62).is_err(), "no disk has so much");
        assert!(opened.names().unwrap().is_empty());
    }
}
