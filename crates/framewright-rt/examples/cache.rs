//! A cache that gives memory back when the arena is short of it: pages by number, in an arena that they fill.
//!
//! ```sh
//! cargo run --release -p framewright-rt --example cache
//! ```
//!
//! | danger | how it is met |
//! |---|---|
//! | a page keeps its arena, the arena its shrinkers: neither would ever be dropped | the arena gets a `Weak` of the cache |
//! | a thread allocates with the lock held, and the arena calls the cache back | `scan` takes the lock by `try_lock` |
//! | pages that are freed one by one need not form a large block | the program empties the cache and asks again |

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use framewright_rt::request::GFP_USER;
use framewright_rt::{AllocError, Arena, NodeId, OwnedPages, Request, Scan, Shrink};

const BYTES: u64 = 64 << 20;
/// Order of a large request: 2 MiB.
const LARGE: u8 = 9;

/// Pages by number.
#[derive(Default)]
struct Cache(Mutex<HashMap<u64, OwnedPages>>);

impl Cache {
    /// Caches a page. Allocates without the lock, so that the cache itself can make room.
    fn load(&self, arena: &Arc<Arena>, number: u64) -> Result<(), AllocError> {
        let mut page = arena.alloc_owned(&Request::page(GFP_USER))?;
        page[..8].copy_from_slice(&number.to_le_bytes());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, page);
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn empty(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Shrink for Cache {
    fn count(&self, _: NodeId) -> u64 {
        self.0.try_lock().map_or(0, |pages| pages.len() as u64)
    }

    fn scan(&self, scan: &Scan) -> u64 {
        let Ok(mut pages) = self.0.try_lock() else { return 0 };
        let numbers: Vec<u64> = pages.keys().copied().take(scan.wanted as usize).collect();
        let leaving: Vec<_> = numbers.iter().filter_map(|number| Some((number, pages.remove(number)?))).collect();
        // They are freed without the lock.
        drop(pages);
        for (number, page) in &leaving {
            assert_eq!(page[..8], number.to_le_bytes());
        }
        leaving.len() as u64
    }
}

/// Allocates a large block, without the cached pages if it must be.
fn large<'a>(arena: &'a Arena, cache: &Cache) -> Result<framewright_rt::Pages<'a>, AllocError> {
    let request = Request::new(GFP_USER, LARGE);
    arena.alloc(&request).or_else(|_| {
        cache.empty();
        arena.alloc(&request)
    })
}

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let cache = Arc::new(Cache::default());
    let builder = Arena::builder().size(BYTES).shrinker(Arc::new(Arc::downgrade(&cache)));
    let arena = Arc::new(builder.build()?);
    let pages = BYTES / arena.page_size() as u64;
    for number in 0..2 * pages {
        cache.load(&arena, number)?;
    }
    writeln!(out, "{} pages loaded, more than there are: {} failed", 2 * pages, arena.stats().failed)?;
    let blocks = [large(&arena, &cache)?, large(&arena, &cache)?];
    writeln!(out, "{} blocks of {} MiB, {} pages still cached", blocks.len(), blocks[0].len() >> 20, cache.len())?;
    drop(blocks);
    let ended = Arc::downgrade(&arena);
    drop((arena, cache));
    writeln!(out, "the arena is gone: {}", ended.strong_count() == 0)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout().lock())
}
