//! The workloads: one unit of each, its name, its limit, and the thread counts that it makes sense for.
//!
//! | workload | one unit of it | a page's cost is |
//! |---|---|---|
//! | `repeat` | allocate one page, free it | allocation and free |
//! | `batch-N` | allocate N pages, free them, the last first | allocation and free |
//! | `batch-N-fifo` | allocate N pages, free them in the order of allocation | allocation and free |
//! | `order-3`, `order-9` | allocate one block of that order, free it | allocation and free of a block |
//! | `rand` | threads fill the pool; all pages are shuffled; threads free what they are dealt | allocation and free |
//! | `producer-consumer` | one thread allocates, a ring carries, another frees | time between two pages |
//! | `aged` | `batch-16384`, after pages were freed in random order and an eighth is kept | allocation and free |
//!
//! Each workload has one limit: the cheapest contender that could do the work ([`Shape::limit`]).

use std::fmt;

/// Batch sizes: powers of four, and the largest that the recorded numbers of other allocators have.
pub(crate) const BATCHES: [usize; 9] = [1, 2, 4, 16, 64, 256, 1024, 4096, 16384];
/// The smallest batch that is also freed in order of allocation: below, the order makes no difference worth a row.
const FIFO_FROM: usize = 16;
/// Orders of the pairs of large blocks.
pub(crate) const ORDERS: [u8; 2] = [3, 9];
/// Batch of the aged pool.
pub(crate) const AGED_BATCH: usize = 16384;

/// A workload: how blocks are allocated and freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One block of an order, again and again.
    Repeat {
        /// Its order.
        order: u8,
    },
    /// Many pages, then all of them back.
    Batch {
        /// How many.
        pages: usize,
        /// The first allocated is freed first.
        fifo: bool,
    },
    /// All pages, shuffled across threads.
    Rand,
    /// From one thread to another.
    ProducerConsumer,
    /// Batches from a pool with a past.
    Aged,
}

impl Shape {
    /// Every workload, in the order of reports.
    pub fn all() -> Vec<Shape> {
        let lifo = BATCHES.map(|pages| Shape::Batch { pages, fifo: false });
        let fifo =
            BATCHES.into_iter().filter(|&pages| pages >= FIFO_FROM).map(|pages| Shape::Batch { pages, fifo: true });
        let mut all = vec![Shape::Repeat { order: 0 }];
        all.extend(lifo);
        all.extend(fifo);
        all.extend([Shape::Aged, Shape::Rand, Shape::ProducerConsumer]);
        all.extend(ORDERS.map(|order| Shape::Repeat { order }));
        all
    }

    /// Name of a group of workloads that can be chosen at once.
    pub(crate) fn family(self) -> &'static str {
        match self {
            Shape::Repeat { order: 0 } => "repeat",
            Shape::Repeat { .. } => "order",
            Shape::Batch { fifo: false, .. } => "batch",
            Shape::Batch { fifo: true, .. } => "fifo",
            Shape::Rand => "rand",
            Shape::ProducerConsumer => "producer-consumer",
            Shape::Aged => "aged",
        }
    }

    /// Describes the workload in a few words.
    pub fn about(self) -> String {
        match self {
            Shape::Repeat { order: 0 } => "allocate one page, free it".to_owned(),
            Shape::Repeat { order } => format!("allocate one block of {} pages, free it", 1 << order),
            Shape::Batch { pages: 1, .. } => "allocate one page, free it, through an array".to_owned(),
            Shape::Batch { pages, fifo: false } => format!("allocate {pages} pages, free the last first"),
            Shape::Batch { pages, fifo: true } => format!("allocate {pages} pages, free the first first"),
            Shape::Rand => "fill the pool, shuffle across threads, free all".to_owned(),
            Shape::ProducerConsumer => "one thread allocates, another frees".to_owned(),
            Shape::Aged => format!("batches of {AGED_BATCH} from a shuffled pool with holes"),
        }
    }

    /// Name and description of all sizes of a batch together.
    pub fn series(self) -> (String, String) {
        match self {
            Shape::Batch { fifo: true, .. } => {
                ("batch-N-fifo".to_owned(), "allocate N pages, free the first first".to_owned())
            }
            Shape::Batch { fifo: false, .. } => {
                ("batch-N".to_owned(), "allocate N pages, free the last first".to_owned())
            }
            _ => (self.to_string(), self.about()),
        }
    }

    /// Order of the blocks.
    pub fn order(self) -> u8 {
        match self {
            Shape::Repeat { order } => order,
            _ => 0,
        }
    }

    /// The contender that the ratio is taken to: without a check where blocks stay with their thread, with a state byte
    /// where every allocator that checks must touch memory that is cold or another core's, two rings where blocks go in
    /// a circle.
    pub fn limit(self) -> &'static str {
        match self {
            Shape::Repeat { .. } | Shape::Batch { .. } => "stack-call",
            Shape::Rand | Shape::Aged => "stack-state",
            Shape::ProducerConsumer => "ring+return",
        }
    }

    /// Blocks in one unit of work of one thread.
    pub fn unit(self) -> usize {
        match self {
            Shape::Batch { pages, .. } => pages,
            Shape::Aged => AGED_BATCH,
            Shape::Repeat { .. } | Shape::Rand | Shape::ProducerConsumer => 1,
        }
    }

    /// Whether a unit's blocks stay allocated until all units are done.
    pub(crate) fn accumulates(self) -> bool {
        self == Shape::Rand
    }

    /// Thread counts that make sense for it, of those wanted.
    pub fn threads(self, wanted: &[usize]) -> Vec<usize> {
        match self {
            Shape::ProducerConsumer if wanted.iter().all(|&threads| threads < 2) => Vec::new(),
            Shape::ProducerConsumer => vec![2],
            _ => wanted.to_vec(),
        }
    }

    /// The workload of this name; no family.
    pub fn parse(name: &str) -> Option<Shape> {
        Shape::all().into_iter().find(|shape| shape.to_string() == name)
    }

    /// The workloads that a name stands for: one, or a family.
    pub fn named(name: &str) -> Vec<Shape> {
        Shape::all().into_iter().filter(|shape| shape.to_string() == name || shape.family() == name).collect()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Repeat { order: 0 } => f.write_str("repeat"),
            Shape::Repeat { order } => write!(f, "order-{order}"),
            Shape::Batch { pages, fifo: false } => write!(f, "batch-{pages}"),
            Shape::Batch { pages, fifo: true } => write!(f, "batch-{pages}-fifo"),
            Shape::Rand => f.write_str("rand"),
            Shape::ProducerConsumer => f.write_str("producer-consumer"),
            Shape::Aged => f.write_str("aged"),
        }
    }
}
