//! The load of fio: files are written page by page, all of them in turn, and then read at random.
//!
//! fio reads each page of a file once before it reads one again (its random map), so 16 reads are a whole file.

use framewright_ops::rng::Rng;

use super::costs::{CALL, COPY};
use super::files::PAGES;
use super::kernel::Kernel;
use super::phase_state::{JOBS, Stage, share};
use crate::engine::here;

/// Pages that a writer writes between two checks of the dirty limit (`ratelimit_pages`).
const RATE: u64 = 32;

impl Kernel<'_> {
    pub(super) fn write(&self, job: usize) -> Option<()> {
        let files = share(self.files(), job);
        let mut written = 0;
        for index in 0..PAGES {
            for file in files.clone() {
                here::turn();
                if index == 0 {
                    self.open(file, true)?;
                } else {
                    // A write changes the file's times (`xfs_vn_update_time`): files take turns, so two writes of one
                    // are a tick or more apart.
                    self.log(file)?;
                }
                here::work(CALL + COPY);
                self.add_page(file, index, true)?;
                self.done();
                written += 1;
                if written % RATE == 0 {
                    self.throttle(RATE, JOBS as u64);
                }
            }
        }
        files.for_each(|file| self.close(file));
        Some(())
    }

    pub(super) fn read(&self, job: usize, stage: &Stage, mut rng: Rng) -> Option<()> {
        let files = share(self.files(), job);
        while !stage.stops.get() && self.is_well() && !files.is_empty() {
            let file = files.start + rng.below(u64::from(files.end - files.start)) as u32;
            if self.with(|memory| memory.files.file(file).open.is_none()) {
                self.open(file, false)?;
            }
            if self.with(|memory| std::mem::take(&mut memory.files.file(file).is_unread)) {
                self.log(file)?;
            }
            let mut order: [usize; PAGES] = std::array::from_fn(|index| index);
            rng.shuffle(&mut order);
            for index in order {
                here::turn();
                self.read_page(file, index)?;
            }
        }
        files.for_each(|file| self.close(file));
        Some(())
    }

    fn read_page(&self, file: u32, index: usize) -> Option<()> {
        here::work(CALL + COPY);
        if !self.touch(file, index) {
            self.add_page(file, index, false)?;
            self.fetch(file, &[index])?;
        }
        self.done();
        Some(())
    }
}
