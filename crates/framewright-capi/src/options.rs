//! What an arena is made from: the options structure, and the builder that it becomes.
//!
//! A structure of this interface begins with its size. A newer library may know more fields than the program that calls
//! it, and an older one fewer:
//!
//! | the program's structure | the library |
//! |---|---|
//! | smaller than the library's | takes the missing fields for 0, which asks for the default |
//! | larger, with zeros in the fields that the library does not know | ignores these |
//! | larger, with other values there | refuses: `FW_E_STRUCT` |
//!
//! So 0 asks for the default in every field, and a structure that is zero but for its sizes is valid.
#![allow(non_camel_case_types, reason = "names of the C interface")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::time::Duration;

use framewright::mechanisms::Hardened;
use framewright::watermark::PcpSize;
use framewright::{Mechanisms, NodeId, NodeSet};
use framewright_ffi::boundary::Versioned;
use framewright_ffi::numbers::{FW_E_EMPTY, FW_E_MECHANISMS, FW_E_OPTION};
use framewright_rt::{Arena, ArenaBuilder, Backing, CpuMode, HugePage, Placement, Transparent};

/// Private memory of the process: zeroed pages that take memory from their first touch on. A fork copies it.
pub const FW_BACKING_PRIVATE: u32 = 0;
/// A sealed memfd, mapped shared, which other processes can map: `fw_arena_memfd`.
pub const FW_BACKING_MEMFD: u32 = 1;
/// Huge pages of 2 MiB out of the kernel's pool, set aside when the arena is created.
pub const FW_BACKING_HUGE_2M: u32 = 2;
/// Huge pages of 1 GiB out of the kernel's pool, set aside when the arena is created.
pub const FW_BACKING_HUGE_1G: u32 = 3;

/// Transparent huge pages as the system is set up.
pub const FW_TRANSPARENT_SYSTEM: u32 = 0;
/// Transparent huge pages where they fit.
pub const FW_TRANSPARENT_ALWAYS: u32 = 1;
/// No transparent huge pages.
pub const FW_TRANSPARENT_NEVER: u32 = 2;

/// The node's memory lies anywhere; the node is a label.
pub const FW_PLACE_ANYWHERE: u32 = 0;
/// The node's memory lies on the first node of the mask, as long as that has memory.
pub const FW_PLACE_PREFER: u32 = 1;
/// The node's memory lies on the nodes of the mask only.
pub const FW_PLACE_BIND: u32 = 2;
/// The node's memory lies page by page on the nodes of the mask in turn.
pub const FW_PLACE_INTERLEAVE: u32 = 3;

/// Fills freed memory with a pattern and checks it before it is used again; refuses two frees in the same instant.
pub const FW_OPTION_HARDENED: u32 = 0x1;
/// Lets handlers that `fw_on_signal` set allocate and free.
pub const FW_OPTION_INTERRUPTS: u32 = 0x2;
/// Makes every page when the arena is created, so that a lack of memory is an error then.
pub const FW_OPTION_POPULATE: u32 = 0x4;
/// Makes a placement, advice or CPU mode that the system refuses an error.
pub const FW_OPTION_STRICT: u32 = 0x8;
/// Lets threads use the allocator's CPU of the processor they run on, for any number of threads.
///
/// About as many local handles can be open at once as there are processors; `fw_local_open` refuses more.
pub const FW_OPTION_PER_CPU: u32 = 0x10;
/// Starts no thread for background work.
pub const FW_OPTION_NO_BACKGROUND: u32 = 0x20;
/// Starts two threads for each node that reclaim and compact when memory is short.
pub const FW_OPTION_BACKGROUND_RECLAIM: u32 = 0x40;

/// `fw_arena_destroy` frees the blocks that are still allocated.
pub const FW_DESTROY_BLOCKS: u32 = 0x1;

const KNOWN_OPTIONS: u32 = 0x7f;

/// One node of an arena.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_node {
    /// Size in bytes. With several nodes a multiple of the pageblock, 2 MiB.
    pub bytes: u64,
    /// The machine's nodes that `placement` is about: bit n is node n.
    pub mask: u64,
    /// `FW_PLACE_ANYWHERE` or another `FW_PLACE_` constant.
    pub placement: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// The description of an arena. Set `size` and `bytes`, and leave 0 what is to be as usual.
///
/// `fw_options_init` prepares it. The library keeps no pointer of it but `memory`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_options {
    /// Size of this structure in bytes, as the program knows it: `sizeof(fw_options)`.
    pub size: usize,
    /// Size of the arena in bytes, on one node; a multiple of the page. With `nodes`: 0, or the size of `memory`.
    pub bytes: u64,
    /// The arena's nodes; NULL for one node anywhere.
    pub nodes: *const fw_node,
    /// Number of entries in `nodes`: at most 64.
    pub node_count: usize,
    /// Mechanisms by preset and switches: "default", "baseline", "default,hardened=zero". NULL for the default.
    pub mechanisms: *const c_char,
    /// Memory of `bytes` bytes that the arena uses instead of mapping some; NULL to map it.
    ///
    /// It begins at a multiple of the page, stays mapped until the arena is destroyed, and is used by nothing else.
    /// Blocks lie at multiples of their size as far as its start does.
    pub memory: *mut c_void,
    /// Where `fw_arena_create` writes why it failed, in words; NULL for nowhere.
    pub message: *mut c_char,
    /// Size of `message` in bytes. The text is cut to fit and ends with NUL.
    pub message_size: usize,
    /// Size of a page in bytes: a power of two from the kernel's page to 1 GiB. By default the kernel's page.
    pub page_bytes: u64,
    /// Bytes at the end of each node for movable requests only (`FW_MOVABLE`), as zone Movable. By default none.
    pub movable_bytes: u64,
    /// Bytes kept from ordinary requests (`min_free_kbytes`). By default none.
    pub min_free_bytes: u64,
    /// Order of the largest block. By default the largest up to 1 GiB that fits into the largest node.
    pub max_order: u32,
    /// `FW_BACKING_PRIVATE` or another `FW_BACKING_` constant.
    pub backing: u32,
    /// `FW_TRANSPARENT_SYSTEM` or another `FW_TRANSPARENT_` constant.
    pub transparent: u32,
    /// Any of the `FW_OPTION_` constants, joined by `|`.
    pub flags: u32,
    /// CPUs to lease to threads: one more than the threads that use the arena.
    ///
    /// Threads that find none share one, at some 200 ns a pair of calls; 1 means that all share. All but one can be
    /// kept by local handles. By default one more than twice the processors.
    pub cpus: u32,
    /// Interval of background work in milliseconds. By default 1,000.
    pub background_ms: u32,
    /// Pages that a CPU keeps at most. By default a sixteenth of each node, shared among CPUs. Needs `list_batch`.
    pub list_high: u32,
    /// Pages that a CPU's list gets or gives at a time. Needs `list_high`.
    pub list_batch: u32,
    /// Bytes that each node may grow to: `fw_arena_grow`. By default the arena's size is fixed.
    ///
    /// With a limit, sizes are multiples of the largest block, which is 2 MiB by default.
    pub limit_bytes: u64,
}

// SAFETY: `repr(C)`, begins with its size, and has numbers and raw pointers alone.
#[allow(unsafe_code, reason = "a promise about the structure's bytes")]
unsafe impl Versioned for fw_options {
    const FIRST_VERSION: usize = offset_of!(fw_options, limit_bytes) + size_of::<u64>();
}

impl fw_options {
    /// Options that ask for the default everywhere.
    pub(crate) const DEFAULT: fw_options = fw_options {
        size: size_of::<fw_options>(),
        bytes: 0,
        nodes: std::ptr::null(),
        node_count: 0,
        mechanisms: std::ptr::null(),
        memory: std::ptr::null_mut(),
        message: std::ptr::null_mut(),
        message_size: 0,
        page_bytes: 0,
        movable_bytes: 0,
        min_free_bytes: 0,
        max_order: 0,
        backing: FW_BACKING_PRIVATE,
        transparent: FW_TRANSPARENT_SYSTEM,
        flags: 0,
        cpus: 0,
        background_ms: 0,
        list_high: 0,
        list_batch: 0,
        limit_bytes: 0,
    };

    /// Returns the builder of the arena; `nodes` and `mechanisms` are what the pointers of these names point to.
    ///
    /// # Errors
    /// The code, and the field that is wrong.
    pub(crate) fn builder(
        &self,
        nodes: &[fw_node],
        mechanisms: Option<&str>,
    ) -> Result<ArenaBuilder, (c_int, &'static str)> {
        if self.flags & !KNOWN_OPTIONS != 0 {
            return Err((FW_E_OPTION, "flags"));
        }
        if self.max_order > u32::from(u8::MAX) {
            return Err((FW_E_OPTION, "max_order"));
        }
        let is_set = |flag: u32| self.flags & flag != 0;
        let mut builder = self.sized(nodes)?.backing(self.backing()?).transparent(self.transparent()?);
        builder = builder.populate(is_set(FW_OPTION_POPULATE)).strict(is_set(FW_OPTION_STRICT));
        builder = builder.interrupts(is_set(FW_OPTION_INTERRUPTS));
        builder = builder.movable(self.movable_bytes).min_free(self.min_free_bytes);
        builder = builder.mechanisms(self.mechanisms(mechanisms)?);
        if self.page_bytes != 0 {
            builder = builder.page(self.page_bytes);
        }
        if self.limit_bytes != 0 {
            builder = builder.limit(self.limit_bytes);
        }
        if self.max_order != 0 {
            builder = builder.max_order(self.max_order as u8);
        }
        if is_set(FW_OPTION_PER_CPU) {
            builder = builder.cpu_mode(CpuMode::PerCpu);
        }
        if self.cpus != 0 {
            builder = builder.cpus(self.cpus as usize);
        }
        match (self.list_high, self.list_batch) {
            (0, 0) => {}
            (0, _) | (_, 0) => return Err((FW_E_OPTION, "list_high and list_batch")),
            (high, batch) => builder = builder.pcp(PcpSize { batch, high }),
        }
        match (is_set(FW_OPTION_NO_BACKGROUND), self.background_ms) {
            (false, 0) => {}
            (false, interval) => builder = builder.background(Duration::from_millis(interval.into())),
            (true, 0) => builder = builder.without_background(),
            (true, _) => return Err((FW_E_OPTION, "background_ms")),
        }
        Ok(if is_set(FW_OPTION_BACKGROUND_RECLAIM) { builder.background_reclaim() } else { builder })
    }

    /// A builder with the nodes.
    fn sized(&self, nodes: &[fw_node]) -> Result<ArenaBuilder, (c_int, &'static str)> {
        let builder = Arena::builder();
        if nodes.is_empty() {
            let missing = if self.nodes.is_null() { "bytes" } else { "node_count is 0" };
            return if self.bytes == 0 { Err((FW_E_EMPTY, missing)) } else { Ok(builder.size(self.bytes)) };
        }
        if nodes.len() > NodeId::LIMIT {
            return Err((FW_E_OPTION, "node_count"));
        }
        if self.bytes != 0 && self.memory.is_null() {
            return Err((FW_E_OPTION, "bytes"));
        }
        nodes.iter().try_fold(builder, |builder, node| Ok(builder.node(node.bytes, node.placement()?)))
    }

    fn backing(&self) -> Result<Backing, (c_int, &'static str)> {
        match self.backing {
            FW_BACKING_PRIVATE => Ok(Backing::Private),
            FW_BACKING_MEMFD => Ok(Backing::Memfd),
            FW_BACKING_HUGE_2M => Ok(Backing::Hugetlb(HugePage::Size2MiB)),
            FW_BACKING_HUGE_1G => Ok(Backing::Hugetlb(HugePage::Size1GiB)),
            _ => Err((FW_E_OPTION, "backing")),
        }
    }

    fn transparent(&self) -> Result<Transparent, (c_int, &'static str)> {
        match self.transparent {
            FW_TRANSPARENT_SYSTEM => Ok(Transparent::System),
            FW_TRANSPARENT_ALWAYS => Ok(Transparent::Always),
            FW_TRANSPARENT_NEVER => Ok(Transparent::Never),
            _ => Err((FW_E_OPTION, "transparent")),
        }
    }

    fn mechanisms(&self, text: Option<&str>) -> Result<Mechanisms, (c_int, &'static str)> {
        let chosen = text.map_or(Ok(Mechanisms::DEFAULT), Mechanisms::parse);
        let chosen = chosen.map_err(|_| (FW_E_MECHANISMS, "mechanisms"))?;
        let must_harden = self.flags & FW_OPTION_HARDENED != 0 && chosen.hardened == Hardened::Off;
        Ok(if must_harden { Mechanisms { hardened: Hardened::Poison, ..chosen } } else { chosen })
    }
}

impl fw_node {
    fn placement(&self) -> Result<Placement, (c_int, &'static str)> {
        let set = NodeSet(self.mask);
        match (self.placement, set.nth_cyclic(0)) {
            _ if self.reserved != 0 => Err((FW_E_OPTION, "nodes: reserved")),
            (FW_PLACE_ANYWHERE, None) => Ok(Placement::Anywhere),
            (FW_PLACE_PREFER, Some(node)) => Ok(Placement::Prefer(node)),
            (FW_PLACE_BIND, Some(_)) => Ok(Placement::Bind(set)),
            (FW_PLACE_INTERLEAVE, Some(_)) => Ok(Placement::Interleave(set)),
            (FW_PLACE_ANYWHERE..=FW_PLACE_INTERLEAVE, _) => Err((FW_E_OPTION, "nodes: mask")),
            _ => Err((FW_E_OPTION, "nodes: placement")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn fields_never_move() {
        assert_eq!((offset_of!(fw_options, message_size), offset_of!(fw_options, max_order)), (56, 88));
        assert_eq!(fw_options::FIRST_VERSION, 128);
        assert_eq!((size_of::<fw_node>(), offset_of!(fw_node, placement)), (24, 16));
    }
}
