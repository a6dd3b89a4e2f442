//! The kinds of memory of an arena, and the report of how it was built.

use std::fmt;

use framewright::mechanisms::Hardened;
use framewright::{NodeId, Order, PfnRange};

use crate::bytes::Bytes;
use crate::cpus::{CpuMode, RseqUnavailable};
use crate::os::{HugePage, OsError, Placement};

/// The kind of memory at an arena's addresses.
///
/// | | after a fork | lack of memory shows | gives free memory back |
/// |---|---|---|---|
/// | [`Backing::Private`] | each process has its own | at the first touch, by the kernel's out-of-memory rules | yes |
/// | [`Backing::Memfd`] | shared; only the parent allocates | as for private memory | yes, in all processes |
/// | [`Backing::File`] | as for a memfd | at the first touch, by `SIGBUS` | yes, if the file may have holes |
/// | [`Backing::Hugetlb`] | the child has none of it | when the arena is built | no |
///
/// With [`crate::ArenaBuilder::populate`] a lack of memory shows when the arena is built, whatever the backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Backing {
    /// Anonymous private memory: zeroed pages that take memory from their first touch on.
    #[default]
    Private,
    /// A sealed memfd, mapped shared, which other processes can map as well: see [`crate::Arena::memfd`].
    Memfd,
    /// A file of the caller's, mapped shared ([`crate::ArenaBuilder::file`]).
    File,
    /// Huge pages out of the kernel's pool, set aside when the arena is built.
    ///
    /// The allocator's page stays the same: frames of 4 KiB by default, cut out of huge pages. So small blocks profit
    /// from the huge pages' translation too.
    Hugetlb(HugePage),
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backing::Private => f.write_str("private"),
            Backing::Memfd => f.write_str("memfd"),
            Backing::File => f.write_str("file"),
            Backing::Hugetlb(page) => write!(f, "hugetlb of {page}"),
        }
    }
}

/// Whether private memory and memfds use huge pages that the kernel puts together by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transparent {
    /// As the system is set up.
    #[default]
    System,
    /// Where they fit, if the system lets programs ask (`/sys/kernel/mm/transparent_hugepage`).
    Always,
    /// Nowhere.
    Never,
}

/// Outcome of a wish that may be refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// It was not asked for.
    #[default]
    NotAsked,
    /// It was done.
    Done,
    /// It was refused, and the arena does without.
    Refused(OsError),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::NotAsked => f.write_str("not asked for"),
            Outcome::Done => f.write_str("done"),
            Outcome::Refused(error) => write!(f, "refused: {error}"),
        }
    }
}

/// One node of an arena, as it was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeReport {
    /// The allocator's node.
    pub node: NodeId,
    /// Its frames, with those that may come.
    pub range: PfnRange,
    /// Where its memory was to lie.
    pub placement: Placement,
    /// Whether it does.
    pub placed: Outcome,
}

/// How an arena was built. `Display` prints it in a few lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArenaReport {
    /// Kind of memory; none if it was handed in.
    pub backing: Option<Backing>,
    /// Managed memory in bytes, as it was at first.
    pub bytes: u64,
    /// Managed memory in bytes that the arena may grow to; `bytes` if its size is fixed.
    pub limit: u64,
    /// Address space of the frame descriptors in bytes; only touched parts take memory.
    pub descriptors: u64,
    /// Size of a page in bytes.
    pub page: u64,
    /// Order of the largest block.
    pub max_order: Order,
    /// CPU slots of the allocator.
    pub cpus: usize,
    /// How threads come to them.
    pub cpu_mode: CpuMode,
    /// Why they do not follow the processors, if that was asked for.
    pub per_cpu_refused: Option<RseqUnavailable>,
    /// Whether transparent huge pages were switched on or off, if asked.
    pub transparent: Outcome,
    /// Whether all pages were made, if asked.
    pub populated: Outcome,
    /// Whether freed memory is filled and checked ([`crate::ArenaBuilder::mechanisms`]).
    pub hardened: Hardened,
    /// The nodes.
    pub nodes: Vec<NodeReport>,
}

impl fmt::Display for ArenaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backing {
            Some(backing) => write!(f, "{backing}")?,
            None => f.write_str("memory handed in")?,
        }
        let ArenaReport { max_order, cpus, .. } = self;
        let [bytes, page, descriptors] = [self.bytes, self.page, self.descriptors].map(Bytes);
        write!(f, ": {bytes}")?;
        if self.limit != self.bytes {
            write!(f, " of at most {}", Bytes(self.limit))?;
        }
        writeln!(f, ", pages of {page}, largest order {max_order}, {cpus} CPU slots")?;
        if let Some(why) = self.per_cpu_refused {
            writeln!(f, "CPUs are leased: {why}")?;
        }
        writeln!(f, "descriptors: {descriptors} of address space")?;
        for (name, outcome) in [("transparent huge pages", self.transparent), ("populated", self.populated)] {
            if outcome != Outcome::NotAsked {
                writeln!(f, "{name}: {outcome}")?;
            }
        }
        if self.hardened != Hardened::Off {
            writeln!(f, "hardened: freed memory is filled, and checked before it is used again")?;
        }
        for node in &self.nodes {
            write!(f, "node {}: frames {}, {}", node.node.0, node.range, node.placement)?;
            match node.placed {
                Outcome::NotAsked => writeln!(f)?,
                outcome => writeln!(f, ": {outcome}")?,
            }
        }
        Ok(())
    }
}
