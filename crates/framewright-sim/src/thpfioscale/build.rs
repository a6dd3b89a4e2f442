//! A source tree is compiled: the load `build`.
//!
//! Each of four CPUs takes a source at random, and again. A compiler reads it and two hundred headers, which are those
//! of a sixteenth of the tree and some of them far more often than others; then its memory grows page by page, with a
//! page table for every 2 MiB; then it writes what it made, in the place of what was there; then it ends, and all of
//! its memory is free at once. Four processes are there meanwhile: `make`'s shell, the driver, the compiler and the
//! assembler.
//!
//! So memory swings by as much as four compilers have, and almost all of it is movable; what is not, page tables and
//! stacks, lives a fifth of a second.
//!
//! Left out: linking, and a compiler's program, which all share.

use framewright::{Order, Pfn};
use framewright_ops::rng::Rng;

use super::kernel::Kernel;
use super::phase_state::{HUGE, JOBS, Stage};
use crate::engine::here;
use crate::model::{Ps, US};

/// Pages of a compiler at most, and at least half of that: 40 MiB; on a small machine, this part of memory. Assumed.
const COMPILER: u64 = 10_000;
const COMPILER_SHARE: u64 = 32;
/// How long it computes for each. Assumed: a fifth of a second for a source.
const COMPUTE: Ps = 25 * US;
/// Headers that a source includes, and every which file is one. Assumed.
const HEADERS: usize = 200;
const HEADER_EVERY: u32 = 16;
/// Processes of one job of `make`.
const PROCESSES: usize = 4;

impl Kernel<'_> {
    /// Compiles sources until it is to end.
    pub(super) fn build(&self, job: usize, stage: &Stage, mut rng: Rng) -> Option<()> {
        let sources = self.sources();
        let all_made = self.files() as u32 - sources;
        let (units, every) = (u64::from(all_made / JOBS as u32), sources / all_made);
        while !stage.stops.get() && self.is_well() {
            let unit = rng.below(units) as u32 * JOBS as u32 + job as u32;
            let made = sources + unit;
            // `make` would find that it is new.
            if self.with(|memory| memory.files.file(made).is_busy()) {
                here::sleep_until(here::clock() + COMPUTE);
                continue;
            }
            self.compile(unit * every, made, &mut rng)?;
        }
        Some(())
    }

    fn compile(&self, source: u32, made: u32, rng: &mut Rng) -> Option<()> {
        let mut fixed: Vec<(Pfn, Order)> = (0..PROCESSES).flat_map(|_| self.fork()).collect();
        self.read_whole(source)?;
        let headers = u64::from(self.sources() / HEADER_EVERY).max(1);
        for _ in 0..HEADERS {
            here::turn();
            // The first ones most: the product of two lots.
            let most = rng.below(headers) + 1;
            self.read_whole(rng.below(most) as u32 * HEADER_EVERY + 1)?;
        }
        let most = COMPILER.min(self.frames / COMPILER_SHARE);
        let mut pages = Vec::new();
        for page in 0..rng.between(most / 2, most) {
            here::turn();
            here::work(COMPUTE);
            if page % HUGE == 0 {
                fixed.push((self.fixed_page()?, Order(0)));
            }
            pages.push(self.add_anon()?);
        }
        self.forget(made);
        self.write_whole(made)?;
        self.free_anon(&pages);
        self.free_blocks(fixed);
        Some(())
    }
}
