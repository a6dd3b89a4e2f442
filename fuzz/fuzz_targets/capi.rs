//! Calls of the C interface, right and wrong: a right call does what it says, a wrong one changes nothing. No page has
//! two owners, and contents stay.
#![no_main]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use framewright_capi::*;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const PAGE: usize = 4096;
/// Pages of the arena.
const PAGES: usize = 256;
/// Calls of a case.
const MOST: usize = 256;

#[derive(Arbitrary, Debug)]
struct Case {
    flags: u8,
    hardened: bool,
    calls: Vec<Call>,
}

/// A call. Numbers are taken as they are now and then, and mostly brought into range.
#[derive(Arbitrary, Debug)]
enum Call {
    Alloc { flags: Flags, order: Small, local: bool },
    AllocBulk { flags: Flags, order: Small, count: u8, local: bool },
    AllocRange { flags: Flags, bytes: Size, alignment: Size },
    Free { block: Address, order: Small, local: bool },
    FreeBulk { blocks: Vec<Address>, order: Small, local: bool },
    FreeRange { start: Address, bytes: Size },
    Split { block: Address, from: Small, to: Small },
    Find { address: Address },
    Discard { block: Address, order: Small },
    DiscardRange { start: Address, bytes: Size },
    Drain,
    Trim { order: Small },
    Order { bytes: Size },
    OpenLocal,
    CloseLocal,
    Text { kind: u8, size: u16 },
    NoBlock,
    NoArena,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Flags {
    Known(u8),
    Any(u32),
}

impl Flags {
    fn number(self) -> u32 {
        const KNOWN: [u32; 6] = [FW_USER, FW_KERNEL, FW_NOWAIT, FW_ATOMIC, FW_MOVABLE, FW_USER | FW_ZERO];
        match self {
            Flags::Known(number) => KNOWN[usize::from(number) % KNOWN.len()],
            Flags::Any(number) => number,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Small {
    /// Up to 8, mostly small.
    Usual(u8),
    Any(u32),
}

impl Small {
    fn number(self) -> c_uint {
        match self {
            Small::Usual(number) => c_uint::from(number).trailing_zeros().min(8),
            Small::Any(number) => number,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Size {
    Pages(u8),
    Power(u8),
    Any(usize),
}

impl Size {
    fn number(self) -> usize {
        match self {
            Size::Pages(number) => usize::from(number) * PAGE,
            Size::Power(power) => 1 << (power % 24),
            Size::Any(number) => number,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Address {
    /// A page that is allocated, if any is.
    Owned(u16),
    Page(u16),
    /// Bytes from the arena's start.
    Offset(i32),
    Any(usize),
}

/// A program, and what it must be able to rely on.
struct Program {
    arena: *mut fw_arena,
    local: *mut fw_local,
    start: usize,
    /// The mark of each page that is owned.
    marks: Vec<Option<u64>>,
    /// Blocks as they were allocated or split, as long as they are whole: first page and order.
    blocks: Vec<(usize, c_uint)>,
    next: u64,
}

impl Program {
    fn address(&self, address: Address) -> usize {
        match address {
            Address::Owned(number) => {
                let owned: Vec<usize> = (0..PAGES).filter(|&page| self.marks[page].is_some()).collect();
                self.start + owned.get(usize::from(number) % owned.len().max(1)).map_or(0, |page| page * PAGE)
            }
            Address::Page(number) => self.start + usize::from(number) % PAGES * PAGE,
            Address::Offset(bytes) => self.start.wrapping_add_signed(bytes as isize),
            Address::Any(address) => address,
        }
    }

    /// The page that an address begins; none if it is another one's, or lies inside of a page.
    fn page_at(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.start);
        (offset < PAGES * PAGE && offset.is_multiple_of(PAGE)).then_some(offset / PAGE)
    }

    fn words(&self, page: usize) -> [*mut u64; 2] {
        let first = without_provenance_mut::<u8>(self.start + page * PAGE);
        [first.cast(), first.wrapping_add(PAGE - 8).cast()]
    }

    /// Notes that pages were handed out.
    fn own(&mut self, address: usize, pages: usize, is_zero: bool) -> usize {
        let first = self.page_at(address).expect("an address of the arena");
        for page in first..first + pages {
            assert_eq!(self.marks[page], None, "page {page} has an owner");
            for word in self.words(page) {
                let word = std::ptr::with_exposed_provenance_mut::<u64>(word.addr());
                // SAFETY: the page was just handed out to this program.
                unsafe {
                    assert!(!is_zero || word.read() == 0, "page {page} is not clear");
                    word.write(self.next);
                }
            }
            self.marks[page] = Some(self.next);
            self.next += 1;
        }
        first
    }

    /// Whether all these pages are owned.
    fn owns(&self, first: usize, pages: usize) -> bool {
        self.marks.get(first..first.saturating_add(pages)).is_some_and(|marks| marks.iter().all(Option::is_some))
    }

    fn check(&self, page: usize) {
        if let Some(mark) = self.marks[page] {
            for word in self.words(page) {
                // SAFETY: the page is this program's.
                let found = unsafe { std::ptr::with_exposed_provenance::<u64>(word.addr()).read() };
                assert_eq!(found, mark, "page {page} was changed");
            }
        }
    }

    /// Before pages are freed: their contents are those that were written.
    fn check_pages(&self, address: usize, pages: usize) {
        if let Some(first) = self.page_at(address) {
            (first..first.saturating_add(pages).min(PAGES)).for_each(|page| self.check(page));
        }
    }

    /// Notes that pages were freed, which only their owner could do.
    fn disown(&mut self, address: usize, pages: usize) {
        let first = self.page_at(address).expect("only pages of the arena are freed");
        assert!(self.owns(first, pages), "a free of pages {first} + {pages} that nobody owns");
        self.marks[first..first + pages].fill(None);
        self.blocks.retain(|&(block, order)| block + (1 << order) <= first || first + pages <= block);
    }

    fn has_block(&self, address: usize, order: c_uint) -> bool {
        self.page_at(address).is_some_and(|page| self.blocks.contains(&(page, order)))
    }

    fn note_alloc(&mut self, code: c_int, block: *mut c_void, flags: u32, order: c_uint) {
        if code == FW_OK {
            let first = self.own(block.addr(), 1 << order, flags & FW_ZERO != 0);
            assert!(block.addr().is_multiple_of(PAGE << order));
            self.blocks.push((first, order));
        } else {
            assert!(code < 0 && block.is_null());
        }
    }

    /// Judges the free of a block.
    fn note_free(&mut self, code: c_int, address: usize, order: c_uint) {
        if code == FW_OK {
            self.disown(address, 1 << order);
        } else {
            assert!(code < 0 && !self.has_block(address, order), "a right free is refused: {code}");
        }
    }
}

/// Addresses and sizes that are wrong are the subject; places for results are right.
impl Program {
    fn alloc(&mut self, flags: u32, order: c_uint, local: bool) {
        let mut block = null_mut();
        // SAFETY: the place is a local.
        let code = match local {
            true => unsafe { fw_local_alloc(self.local, flags, order, &raw mut block) },
            false => unsafe { fw_alloc(self.arena, flags, order, &raw mut block) },
        };
        self.note_alloc(code, block, flags, order);
    }

    fn alloc_bulk(&mut self, flags: u32, order: c_uint, count: usize, local: bool) {
        let mut blocks = vec![null_mut(); count];
        let (place, mut done) = (blocks.as_mut_ptr(), 0);
        // SAFETY: there is room for `count`.
        let code = match local {
            true => unsafe { fw_local_alloc_bulk(self.local, flags, order, count, place, &raw mut done) },
            false => unsafe { fw_alloc_bulk(self.arena, flags, order, count, place, &raw mut done) },
        };
        assert!(if code == FW_OK { (done == 0) == (count == 0) } else { done == 0 });
        blocks.iter().take(done).for_each(|&block| self.note_alloc(FW_OK, block, flags, order));
        assert!(blocks.iter().skip(done).all(|block| block.is_null()));
    }

    fn alloc_range(&mut self, flags: u32, bytes: usize, alignment: usize) {
        let mut start = null_mut();
        // SAFETY: the place is a local.
        if unsafe { fw_alloc_range(self.arena, flags, bytes, alignment, &raw mut start) } == FW_OK {
            self.own(start.addr(), bytes.div_ceil(PAGE), flags & FW_ZERO != 0);
            assert!(alignment.is_power_of_two() && start.addr().is_multiple_of(alignment));
        }
    }

    fn free(&mut self, address: usize, order: c_uint, local: bool) {
        self.check_pages(address, 1_usize.checked_shl(order).unwrap_or(1));
        let block = without_provenance_mut(address);
        // SAFETY: what is allocated is this program's, and anything else is refused.
        let code = match local {
            true => unsafe { fw_local_free(self.local, block, order) },
            false => unsafe { fw_free(self.arena, block, order) },
        };
        if !local || !self.local.is_null() {
            self.note_free(code, address, order);
        }
    }

    fn free_bulk(&mut self, addresses: &[usize], order: c_uint, local: bool) {
        let blocks: Vec<*mut c_void> = addresses.iter().map(|&address| without_provenance_mut(address)).collect();
        let (mut freed, mut refused) = (0, usize::MAX);
        let (count, place) = (blocks.len(), blocks.as_ptr());
        // SAFETY: as for one free.
        let code = match local {
            true => unsafe { fw_local_free_bulk(self.local, order, count, place, &raw mut freed, &raw mut refused) },
            false => unsafe { fw_free_bulk(self.arena, order, count, place, &raw mut freed, &raw mut refused) },
        };
        if local && self.local.is_null() {
            return assert_eq!((code, freed, refused), (FW_E_LOCAL, 0, usize::MAX));
        }
        assert_eq!(code == FW_OK, freed == count);
        assert_eq!(code == FW_OK, refused == usize::MAX);
        // Which of them were freed the model knows, as long as it knows the blocks.
        let mut found = 0;
        for &address in addresses {
            let mut head = null_mut();
            // SAFETY: the places are locals, or nowhere.
            let code = unsafe { fw_find(self.arena, without_provenance_mut(address), &raw mut head, null_mut()) };
            // An address inside of a block that was freed begins none of this order.
            let pages = 1_usize.checked_shl(order).unwrap_or(usize::MAX);
            let begins_block = |page: usize| page.is_multiple_of(pages) && self.owns(page, 1);
            if self.page_at(address).is_some_and(begins_block) && code == FW_E_ALREADY_FREE {
                self.disown(address, pages);
                found += 1;
            }
        }
        assert_eq!(found, freed, "frees of blocks that nobody owned");
    }

    fn free_range(&mut self, address: usize, bytes: usize) {
        let pages = bytes.div_ceil(PAGE);
        self.check_pages(address, pages);
        let is_right = pages != 0 && self.page_at(address).is_some_and(|page| self.owns(page, pages));
        // SAFETY: as for a block.
        let code = unsafe { fw_free_range(self.arena, without_provenance_mut(address), bytes) };
        assert_eq!(code == FW_OK, is_right, "{code}");
        if is_right {
            self.disown(address, pages);
        }
    }

    fn split(&mut self, address: usize, from: c_uint, to: c_uint) {
        let is_right = self.has_block(address, from) && to <= from;
        // SAFETY: as for a free.
        let code = unsafe { fw_split(self.arena, without_provenance_mut(address), from, to) };
        assert!(code == FW_OK || !is_right, "a right split is refused: {code}");
        if code == FW_OK {
            let first = self.page_at(address).expect("a block of the arena");
            assert!(to <= from && self.owns(first, 1 << from));
            self.blocks.retain(|&(block, _)| block != first);
            self.blocks.extend((0..1 << (from - to)).map(|part| (first + (part << to), to)));
        }
    }

    fn find(&mut self, address: usize) {
        let (mut block, mut order) = (null_mut(), 0);
        // SAFETY: the places are locals.
        let code = unsafe { fw_find(self.arena, without_provenance_mut(address), &raw mut block, &raw mut order) };
        let page = self.page_at(address & !(PAGE - 1));
        assert_eq!(code == FW_OK, page.is_some_and(|page| self.owns(page, 1)), "{code}");
        if code == FW_OK {
            let first = self.page_at(block.addr()).expect("a block of the arena");
            assert!(self.owns(first, 1 << order) && (first..first + (1 << order)).contains(&page.unwrap_or(PAGES)));
        }
    }

    /// Gives contents back, and marks the pages anew.
    fn note_discard(&mut self, code: c_int, address: usize, pages: usize) {
        if code == FW_OK {
            let first = self.page_at(address).expect("a page of the arena");
            assert!(self.owns(first, pages));
            self.marks[first..first + pages].fill(None);
            self.own(address, pages, true);
        }
    }

    fn discard(&mut self, address: usize, order: c_uint) {
        let is_right = self.has_block(address, order);
        // SAFETY: what is allocated is this program's, which has no reference to it.
        let code = unsafe { fw_discard(self.arena, without_provenance_mut(address), order) };
        assert!(code == FW_OK || !is_right);
        self.note_discard(code, address, 1_usize.checked_shl(order).unwrap_or(0));
    }

    fn discard_range(&mut self, address: usize, bytes: usize) {
        let pages = bytes.div_ceil(PAGE);
        let is_right = pages != 0 && self.page_at(address).is_some_and(|page| self.owns(page, pages));
        // SAFETY: as above.
        let code = unsafe { fw_discard_range(self.arena, without_provenance_mut(address), bytes) };
        assert_eq!(code == FW_OK, is_right, "{code}");
        self.note_discard(code, address, pages);
    }

    fn text(&self, kind: u8, size: usize) {
        let mut buffer = vec![0x55_u8; size + 1];
        // SAFETY: the buffer has more than `size` bytes.
        let length = unsafe { fw_arena_text(self.arena, kind.into(), buffer.as_mut_ptr().cast(), size) };
        assert_eq!(buffer[size], 0x55, "beyond the buffer");
        assert!(size == 0 || length < 0 || buffer[size.min(length as usize + 1) - 1] == 0);
    }

    fn play(&mut self, call: &Call) {
        let at = |address: &Address| self.address(*address);
        match call {
            Call::Alloc { flags, order, local } => self.alloc(flags.number(), order.number(), *local),
            Call::AllocBulk { flags, order, count, local } => {
                self.alloc_bulk(flags.number(), order.number(), (*count).into(), *local);
            }
            Call::AllocRange { flags, bytes, alignment } => {
                self.alloc_range(flags.number(), bytes.number(), alignment.number());
            }
            Call::Free { block, order, local } => self.free(at(block), order.number(), *local),
            Call::FreeBulk { blocks, order, local } => {
                let blocks: Vec<usize> = blocks.iter().map(at).collect();
                self.free_bulk(&blocks, order.number(), *local);
            }
            Call::FreeRange { start, bytes } => self.free_range(at(start), bytes.number()),
            Call::Split { block, from, to } => self.split(at(block), from.number(), to.number()),
            Call::Find { address } => self.find(at(address)),
            Call::Discard { block, order } => self.discard(at(block), order.number()),
            Call::DiscardRange { start, bytes } => self.discard_range(at(start), bytes.number()),
            Call::Text { kind, size } => self.text(*kind, (*size).into()),
            _ => self.play_rest(call),
        }
    }

    fn play_rest(&mut self, call: &Call) {
        // SAFETY: places are locals, or nowhere; NULL is the subject.
        unsafe {
            match call {
                Call::Drain => assert_eq!(fw_arena_drain(self.arena, null_mut()), FW_OK),
                Call::Trim { order } => drop(fw_arena_trim(self.arena, order.number(), null_mut())),
                Call::Order { bytes } => {
                    let mut order = 0;
                    if fw_arena_order(self.arena, bytes.number(), &raw mut order) == FW_OK {
                        assert!(PAGE << order >= bytes.number());
                    }
                }
                Call::OpenLocal if self.local.is_null() => {
                    assert_eq!(fw_local_open(self.arena, &raw mut self.local), FW_OK);
                }
                Call::OpenLocal => {}
                Call::CloseLocal => {
                    let expected = if self.local.is_null() { FW_E_LOCAL } else { FW_OK };
                    assert_eq!(fw_local_close(std::mem::replace(&mut self.local, null_mut())), expected);
                }
                Call::NoBlock => assert_eq!(fw_alloc(self.arena, FW_USER, 0, null_mut()), FW_E_NULL),
                _ => assert_eq!(fw_free(null_mut(), null_mut(), 0), FW_E_ARENA),
            }
        }
    }

    /// The arena counts what the model has.
    fn is_as_expected(&self) {
        (0..PAGES).for_each(|page| self.check(page));
        let mut why = [0_u8; 256];
        // SAFETY: a structure of numbers and pointers may be zero; sizes are right.
        unsafe {
            let mut stats: fw_stats = std::mem::zeroed();
            stats.size = size_of::<fw_stats>();
            assert_eq!(fw_arena_stats(self.arena, &raw mut stats), FW_OK);
            assert_eq!(stats.allocated as usize, self.marks.iter().flatten().count());
            assert_eq!(stats.written_after_free, 0);
            let code = fw_arena_validate(self.arena, why.as_mut_ptr().cast(), why.len());
            assert_eq!(code, FW_OK, "{}", String::from_utf8_lossy(&why));
        }
    }
}

fuzz_target!(|case: Case| {
    let mut arena = null_mut();
    // SAFETY: all places are locals, of the sizes that are told.
    let start = unsafe {
        let mut options: fw_options = std::mem::zeroed();
        assert_eq!(fw_options_init(&raw mut options, size_of::<fw_options>()), FW_OK);
        options.bytes = (PAGES * PAGE) as u64;
        options.flags = FW_OPTION_NO_BACKGROUND | if case.hardened { FW_OPTION_HARDENED } else { 0 };
        options.backing = u32::from(case.flags & 1);
        options.max_order = 8;
        options.cpus = 3;
        assert_eq!(fw_arena_create(&raw const options, &raw mut arena), FW_OK);
        let mut stats: fw_stats = std::mem::zeroed();
        stats.size = size_of::<fw_stats>();
        assert_eq!(fw_arena_stats(arena, &raw mut stats), FW_OK);
        stats.start.expose_provenance()
    };
    let (marks, blocks) = (vec![None; PAGES], Vec::new());
    let mut program = Program { arena, local: null_mut(), start, marks, blocks, next: 1 };
    for (number, call) in case.calls.iter().take(MOST).enumerate() {
        program.play(call);
        if number % 32 == 31 {
            program.is_as_expected();
        }
    }
    program.is_as_expected();
    // SAFETY: the handles are the program's, and nothing is used any more.
    unsafe {
        if !program.local.is_null() {
            assert_eq!(fw_arena_destroy(arena, FW_DESTROY_BLOCKS), FW_E_IN_USE);
            assert_eq!(fw_local_close(program.local), FW_OK);
        }
        let is_used = program.marks.iter().any(Option::is_some);
        assert_eq!(fw_arena_destroy(arena, 0), if is_used { FW_E_IN_USE } else { FW_OK });
        if is_used {
            assert_eq!(fw_arena_destroy(arena, FW_DESTROY_BLOCKS), FW_OK);
        }
    }
});
