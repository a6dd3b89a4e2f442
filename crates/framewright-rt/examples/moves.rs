//! Pages that keep their contents, however often they are moved.
//!
//! ```sh
//! cargo run --release -p framewright-rt --example moves -- --moves 1000000 --mechanisms default,compaction=scanners
//! ```
//!
//! Threads fill an arena with movable pages of several orders. They write into each its key, a version, and a check
//! that follows from both, and read them again and again. Between the pages lie blocks that cannot move. All threads
//! want huge blocks, for which memory must be compacted or reclaimed. Background reclaim and compaction run. The pages'
//! owner refuses one request in eight (in fits, every second one), sleeps now and then, and calls the allocator from
//! inside. Now and then all threads rest. Then every frame is accounted for, and each page must hold what was written
//! last. Ends with status 1 if anything is wrong.

use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use clap::Parser;
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::{Mechanisms, NodeId, Request};
use framewright_ops::rng::Rng;
use framewright_rt::{Arena, Leaving, MovablePage, MovableReport, Moving, OwnedPages, PageOwner};

/// How much, and of what.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Options {
    /// Moves of pages to be seen before it ends; and at least one page that its owner would not have moved, and one that left.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) moves: u64,
    /// The allocator's mechanisms.
    #[arg(long, default_value = "default,compaction=emptiest,proactiveness=20")]
    pub(crate) mechanisms: String,
    /// Threads.
    #[arg(long, default_value_t = 4)]
    pub(crate) threads: u64,
    /// Size of the arena.
    #[arg(long, default_value_t = 64)]
    pub(crate) mib: u64,
    /// Rests after which it ends anyway.
    #[arg(long, default_value_t = u64::MAX)]
    pub(crate) rests: u64,
    /// Operations of each thread between two rests.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) turns: u64,
}

/// The word at an index of the page `key`, as written the `version`th time.
fn word(key: u64, version: u64, index: usize) -> u64 {
    (key ^ version.rotate_left(40)).wrapping_add(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn fill(bytes: &mut [u8], key: u64, version: u64) {
    for (index, place) in bytes.chunks_exact_mut(8).enumerate() {
        place.copy_from_slice(&if index == 0 { version } else { word(key, version, index) }.to_ne_bytes());
    }
}

/// The version of a page; none if its contents are wrong.
fn version(bytes: &[u8], key: u64) -> Option<u64> {
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let version = words.next()?;
    // All at once: the compiler makes vectors of it.
    let wrong = (1..).zip(words).fold(0, |wrong, (index, found)| wrong | (found ^ word(key, version, index)));
    (wrong == 0).then_some(version)
}

/// Calls of the owner that a fit lasts.
const FIT: u64 = 1_024;

/// Owns the pages: unwilling, slow, and in need of memory itself.
#[derive(Default)]
struct Difficult {
    arena: OnceLock<Weak<Arena>>,
    calls: AtomicU64,
    damaged: AtomicU64,
}

impl Difficult {
    /// Whether it is willing, this time.
    fn is_willing(&self) -> bool {
        let call = self.calls.fetch_add(1, Relaxed);
        let (mut chance, is_in_a_fit) = (Rng::new(call), Rng::new(!(call / FIT)).one_in(4));
        if chance.below(2_000) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if chance.below(16) == 0
            && let Some(arena) = self.arena.get().and_then(Weak::upgrade)
        {
            let held = arena.alloc(&Request::new(GFP_NOWAIT, chance.below(3) as u8));
            if chance.below(64) == 0 {
                arena.drain();
            }
            drop(held);
        }
        !is_in_a_fit || chance.below(2) == 0
    }
}

impl PageOwner for Difficult {
    fn leaves(&self, page: &Leaving<'_>) -> bool {
        // Most would have to be written out, for which there is no place; half of the others have one.
        if !page.key.is_multiple_of(if page.gentle { 8 } else { 4 }) || !self.is_willing() {
            return false;
        }
        if version(page.contents, page.key).is_none() {
            self.damaged.fetch_add(1, Relaxed);
        }
        true
    }

    fn moves(&self, _: &Moving) -> bool {
        self.is_willing()
    }
}

/// For a closure cannot be told by an `Arc`.
struct Shared(Arc<Difficult>);

impl PageOwner for Shared {
    fn leaves(&self, page: &Leaving<'_>) -> bool {
        self.0.leaves(page)
    }

    fn moves(&self, page: &Moving) -> bool {
        self.0.moves(page)
    }
}

/// A thread's belongings.
struct Worker {
    chance: Rng,
    /// Pages and the versions that they must have.
    pages: Vec<(MovablePage, u64)>,
    /// Blocks that cannot move.
    fixed: VecDeque<OwnedPages>,
    keys: u64,
    did: Did,
}

/// Counts of the threads' work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Did {
    /// Huge blocks that were had.
    pub(crate) huge: u64,
    /// Those that there were none of.
    pub(crate) no_huge: u64,
    /// Pages that were checked and were right.
    pub(crate) intact: u64,
    /// Pages that had left.
    pub(crate) gone: u64,
    /// Pages that there was no memory for.
    pub(crate) refused: u64,
}

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// The arena's report of its movable pages.
    pub(crate) pages: MovableReport,
    /// The threads' counts.
    pub(crate) did: Did,
}

impl Worker {
    fn new(number: u64) -> Worker {
        let (pages, fixed, did) = (Vec::new(), VecDeque::new(), Did::default());
        Worker { chance: Rng::new(number), pages, fixed, keys: number << 48, did }
    }

    /// Looks at a page. False if it has left.
    fn check(&mut self, index: usize) -> bool {
        let (page, expected) = &self.pages[index];
        let found = page.read().map(|bytes| version(&bytes, page.key()));
        if let Some(found) = found {
            assert_eq!(found, Some(*expected), "{page:?} is not what was written to it");
            self.did.intact += 1;
        } else {
            self.did.gone += 1;
        }
        found.is_some()
    }

    fn some_page(&mut self) -> Option<usize> {
        (!self.pages.is_empty()).then(|| self.chance.below(self.pages.len() as u64) as usize)
    }

    fn turn(&mut self, arena: &Arc<Arena>, most: usize) {
        match self.chance.below(1_000) {
            0..400 => {
                let order = [0, 0, 0, 0, 0, 0, 1, 2, 3, 4][self.chance.below(10) as usize];
                self.keys += 1;
                let (request, key) = (Request::new(GFP_HIGHUSER_MOVABLE, order), self.keys);
                match arena.alloc_movable(&request, key, |bytes| fill(bytes, key, 0)) {
                    Ok(page) => self.pages.push((page, 0)),
                    Err(_) => self.did.refused += 1,
                }
                if self.pages.len() > most {
                    self.pages.swap_remove(self.chance.below(most as u64) as usize);
                }
            }
            400..600 => {
                if let Some(index) = self.some_page()
                    && !self.check(index)
                {
                    self.pages.swap_remove(index);
                }
            }
            600..700 => {
                if let Some(index) = self.some_page() {
                    let (page, version) = &mut self.pages[index];
                    if let Some(mut bytes) = page.write() {
                        *version += 1;
                        fill(&mut bytes, page.key(), *version);
                    }
                }
            }
            700..900 => {
                if let Some(index) = self.some_page() {
                    self.check(index);
                    self.pages.swap_remove(index);
                }
            }
            900..960 => {
                // With a page held fast meanwhile.
                let pin = self.some_page().and_then(|index| self.pages[index].0.read());
                let order = self.chance.below(3) as u8;
                if let Ok(block) = arena.alloc_owned(&Request::new(GFP_KERNEL, order)) {
                    drop(pin);
                    self.fixed.push_back(block);
                }
                if self.fixed.len() > 100 {
                    self.fixed.pop_front();
                }
            }
            _ => self.huge(arena),
        }
    }

    /// Wants a huge block, movable or not, for a moment.
    fn huge(&mut self, arena: &Arc<Arena>) {
        let gfp = if self.chance.below(4) == 0 { GFP_KERNEL } else { GFP_HIGHUSER_MOVABLE };
        match arena.alloc(&Request::new(gfp, 9)) {
            Ok(mut huge) => {
                self.did.huge += 1;
                huge[..8].fill(1);
            }
            Err(_) => self.did.no_huge += 1,
        }
        if self.chance.below(16) == 0 {
            arena.compact(NodeId(0));
        }
    }
}

/// Checks each page and accounts for every frame, while all threads rest.
fn check(arena: &Arena, workers: &mut [Worker], owner: &Difficult) -> Result<(), Box<dyn Error>> {
    for worker in workers.iter_mut() {
        for index in (0..worker.pages.len()).rev() {
            if !worker.check(index) {
                worker.pages.swap_remove(index);
            }
        }
    }
    // Background reclaim goes on before and after the look.
    let (census, pages) = loop {
        let (before, census) = (arena.movable_pages(), arena.validate()?);
        if arena.movable_pages() == before {
            break (census, before);
        }
    };
    let fixed = workers.iter().flat_map(|worker| &worker.fixed).map(|block| block.frames().frames()).sum::<u64>();
    let held = fixed + pages.frames;
    let damaged = owner.damaged.load(Relaxed);
    if (census.allocated, census.quarantined, arena.refused_frees(), damaged) != (held, 0, 0, 0) {
        let refused = arena.refused_frees();
        return Err(format!("{held} frames held, {refused} frees refused, {damaged} pages damaged, {census:?}").into());
    }
    Ok(())
}

/// Whether there were enough moves, and the owner both allowed and refused.
///
/// Its refusals come in fits, and all moves may fall between two.
fn is_enough(pages: &MovableReport, moves: u64) -> bool {
    pages.moved >= moves && pages.stayed != 0 && pages.left != 0
}

/// Moves pages until there were enough moves, and reports the result.
pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<Outcome, Box<dyn Error>> {
    let mechanisms = Mechanisms::parse(&options.mechanisms).map_err(|(part, error)| format!("{part}: {error:?}"))?;
    let owner = Arc::new(Difficult::default());
    let bytes = options.mib << 20;
    let builder = Arena::builder().size(bytes).min_free(bytes / 64).mechanisms(mechanisms).max_order(10);
    let builder = builder.cpus(options.threads as usize + 2).background_reclaim();
    let arena = Arc::new(builder.movable_pages(Shared(Arc::clone(&owner))).build()?);
    owner.arena.get_or_init(|| Arc::downgrade(&arena));
    // On average a page has 3.6 frames: three quarters of the memory, and an eighth is in blocks that cannot move.
    let most = (bytes / 4096 / options.threads / 5) as usize;
    let mut workers: Vec<Worker> = (0..options.threads).map(Worker::new).collect();
    let start = Instant::now();
    let mut rests = 0;
    while !is_enough(&arena.movable_pages(), options.moves) && rests < options.rests {
        rests += 1;
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| (0..options.turns).for_each(|_| worker.turn(&arena, most)));
            }
        });
        check(&arena, &mut workers, &owner)?;
    }
    let (time, pages) = (start.elapsed(), arena.movable_pages());
    let mut did = Did::default();
    for worker in &workers {
        did.huge += worker.did.huge;
        did.no_huge += worker.did.no_huge;
        did.intact += worker.did.intact;
        did.gone += worker.did.gone;
        did.refused += worker.did.refused;
    }
    writeln!(out, "{}\n{pages:?}\n{did:?}\n{:.1} s", options.mechanisms, time.as_secs_f64())?;
    workers.clear();
    check(&arena, &mut workers, &owner)?;
    if arena.movable_pages().frames != 0 {
        return Err(format!("{} frames are left behind", arena.movable_pages().frames).into());
    }
    Ok(Outcome { pages, did })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&Options::parse(), &mut std::io::stdout()).map(drop)
}
