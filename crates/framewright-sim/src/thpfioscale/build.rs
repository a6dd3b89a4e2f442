//! A source tree is compiled: the load `build`.
//!
//! Each of four CPUs compiles one random source after the other. A compiler:
//!
//! 1. reads the source and two hundred headers, which are a sixteenth of the tree and of very unequal popularity;
//! 2. grows page by page, with a page table for every 2 MiB;
//! 3. writes its result in the place of the old one;
//! 4. ends, and all of its memory is freed at once.
//!
//! Four processes exist meanwhile: `make`'s shell, the driver, the compiler and the assembler.
//!
//! So memory use swings by the memory of four compilers. Almost all of it is movable; page tables and stacks are not,
//! and live a fifth of a second.
//!
//! Left out: linking, and the compiler's program text, which all share.

use framewright::{Order, Pfn};
use framewright_ops::rng::Rng;

use super::kernel::Kernel;
use super::phase_state::{HUGE, JOBS, Stage};
use crate::engine::here;
use crate::model::{Ps, US};

/// Most pages of a compiler, 40 MiB; it has at least half of that. On a small machine, this share of memory. Assumed.
const COMPILER: u64 = 10_000;
const COMPILER_SHARE: u64 = 32;
/// Time that it computes for each page. Assumed: a fifth of a second for a source.
const COMPUTE: Ps = 25 * US;
/// Headers that a source includes, and files for each header. Assumed.
const HEADERS: usize = 200;
const HEADER_EVERY: u32 = 16;
/// Processes of one job of `make`.
const PROCESSES: usize = 4;

impl Kernel<'_> {
    /// Compiles sources until the end of the phase.
    pub(super) fn build(&self, job: usize, stage: &Stage, mut rng: Rng) -> Option<()> {
        let sources = self.sources();
        let all_made = self.files() as u32 - sources;
        let (units, every) = (u64::from(all_made / JOBS as u32), sources / all_made);
        while !stage.stops.get() && self.is_well() {
            let unit = rng.below(units) as u32 * JOBS as u32 + job as u32;
            let made = sources + unit;
            // `make` would find that the result is new.
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
            // The first ones most: two draws make it so.
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
