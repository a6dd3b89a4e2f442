//! Instructions of calls through C, beside those of the same calls in Rust.
//!
//! ```sh
//! cargo run --release -p framewright-capi --example calls
//! ```
//!
//! The program runs itself under callgrind, once for each caller and each call, and prints a table. Every call is one
//! that is not inlined, with flags and order that the compiler does not know. The loop around the calls counts too, for
//! all callers alike.
//!
//! | caller | calls | names a block by |
//! |---|---|---|
//! | `c` | the functions of `framewright.h` | its address |
//! | `rust` | the allocator's own (`Arena::allocator`), with `Arena::address` and `Arena::pfn_of` | its address |
//! | `number` | the allocator's own | its frame number |
//! | `arena` | those of `Arena` and `LocalArena` | an owner that frees itself |
//!
//! The limit, 1.2, is for `c` against `rust`: the call in Rust with the same arguments and the same result.
#![allow(unsafe_code, reason = "C functions are called, and `Arena::allocator`; all blocks are the program's own")]

mod counting;

use std::ffi::{c_uint, c_void};
use std::hint::black_box;
use std::process::ExitCode;
use std::ptr::{NonNull, null_mut};

use framewright::request::GFP_USER;
use framewright::{Allocator, Gfp, Local, Order, Pfn, Request};
use framewright_capi::{
    FW_OK, FW_OPTION_NO_BACKGROUND, fw_alloc, fw_alloc_bulk, fw_arena, fw_arena_create, fw_free, fw_free_bulk,
    fw_local, fw_local_alloc, fw_local_free, fw_local_open, fw_options, fw_options_init,
};
use framewright_rt::{Arena, LocalArena, Native, Pages};

use counting::Counting;

/// Pages of a batch, and batches: before any is counted, and while they are.
const PAGES: usize = 64;
const WARM: usize = 50;
const BATCHES: usize = 8;
const BYTES: u64 = 1 << 30;

const CALLS: [&str; 3] = ["plain", "local", "bulk"];
const WHATS: [&str; 3] = ["alloc", "free", "pair"];
const CALLERS: [&str; 4] = ["c", "rust", "number", "arena"];

/// A way to call the allocator: blocks of one batch.
trait Caller {
    type Block;
    fn alloc(&mut self, blocks: &mut Vec<Self::Block>);
    fn free(&mut self, blocks: &mut Vec<Self::Block>);
    fn pair(&mut self, blocks: &mut Vec<Self::Block>);
}

/// One call for each block.
trait OneByOne {
    type Block;
    fn one(&self) -> Self::Block;
    fn back(&self, block: Self::Block);
}

impl<T: OneByOne> Caller for T {
    type Block = T::Block;

    #[inline(always)]
    fn alloc(&mut self, blocks: &mut Vec<T::Block>) {
        for _ in 0..PAGES {
            blocks.push(self.one());
        }
    }

    #[inline(always)]
    fn free(&mut self, blocks: &mut Vec<T::Block>) {
        while let Some(block) = blocks.pop() {
            self.back(block);
        }
    }

    #[inline(always)]
    fn pair(&mut self, _: &mut Vec<T::Block>) {
        for _ in 0..PAGES {
            let block = self.one();
            self.back(block);
        }
    }
}

#[inline(never)]
fn counted_alloc<C: Caller>(caller: &mut C, blocks: &mut Vec<C::Block>) {
    caller.alloc(blocks);
}

#[inline(never)]
fn counted_free<C: Caller>(caller: &mut C, blocks: &mut Vec<C::Block>) {
    caller.free(blocks);
}

#[inline(never)]
fn counted_pair<C: Caller>(caller: &mut C, blocks: &mut Vec<C::Block>) {
    caller.pair(blocks);
}

fn work<C: Caller>(mut caller: C) {
    let mut blocks = Vec::with_capacity(PAGES);
    for _ in 0..WARM {
        caller.alloc(&mut blocks);
        caller.free(&mut blocks);
    }
    for _ in 0..BATCHES {
        counted_alloc(&mut caller, &mut blocks);
        counted_free(&mut caller, &mut blocks);
        counted_pair(&mut caller, &mut blocks);
        caller.free(&mut blocks);
    }
}

/// What a caller asks for, unknown to the compiler.
#[derive(Clone, Copy)]
struct Asked {
    gfp: Gfp,
    order: Order,
}

impl Asked {
    fn page() -> Asked {
        Asked { gfp: black_box(GFP_USER), order: black_box(Order(0)) }
    }

    #[inline(always)]
    fn request(self) -> Request {
        Request { order: self.order, ..Request::page(self.gfp) }
    }
}

struct PlainC(*mut fw_arena, u32, c_uint);

impl OneByOne for PlainC {
    type Block = *mut c_void;

    #[inline(always)]
    fn one(&self) -> *mut c_void {
        let mut block = null_mut();
        // SAFETY: the arena lives, and the block's place is a local.
        assert_eq!(unsafe { fw_alloc(self.0, self.1, self.2, &raw mut block) }, FW_OK);
        block
    }

    #[inline(always)]
    fn back(&self, block: *mut c_void) {
        // SAFETY: the block is the program's.
        assert_eq!(unsafe { fw_free(self.0, block, self.2) }, FW_OK);
    }
}

struct LocalC(*mut fw_local, u32, c_uint);

impl OneByOne for LocalC {
    type Block = *mut c_void;

    #[inline(always)]
    fn one(&self) -> *mut c_void {
        let mut block = null_mut();
        // SAFETY: the local handle is open, and the block's place is a local.
        assert_eq!(unsafe { fw_local_alloc(self.0, self.1, self.2, &raw mut block) }, FW_OK);
        block
    }

    #[inline(always)]
    fn back(&self, block: *mut c_void) {
        // SAFETY: the block is the program's.
        assert_eq!(unsafe { fw_local_free(self.0, block, self.2) }, FW_OK);
    }
}

struct BulkC(*mut fw_arena, u32, c_uint);

impl Caller for BulkC {
    type Block = *mut c_void;

    #[inline(always)]
    fn alloc(&mut self, blocks: &mut Vec<*mut c_void>) {
        let mut done = 0;
        // SAFETY: the vector has room for a batch, and so many entries are initialised then.
        unsafe {
            assert_eq!(fw_alloc_bulk(self.0, self.1, self.2, PAGES, blocks.as_mut_ptr(), &raw mut done), FW_OK);
            blocks.set_len(done);
        }
    }

    #[inline(always)]
    fn free(&mut self, blocks: &mut Vec<*mut c_void>) {
        let nowhere = null_mut();
        // SAFETY: the blocks are the program's.
        let freed = unsafe { fw_free_bulk(self.0, self.2, blocks.len(), blocks.as_ptr(), nowhere, nowhere) };
        assert_eq!(freed, FW_OK);
        blocks.clear();
    }

    #[inline(always)]
    fn pair(&mut self, blocks: &mut Vec<*mut c_void>) {
        self.alloc(blocks);
        self.free(blocks);
    }
}

/// How a Rust caller names blocks.
trait Naming: Copy {
    type Name;
    fn name(self, pfn: Pfn) -> Self::Name;
    fn number(self, name: &Self::Name) -> Pfn;
}

/// By address.
impl Naming for &Arena {
    type Name = NonNull<u8>;

    #[inline(always)]
    fn name(self, pfn: Pfn) -> NonNull<u8> {
        self.address(pfn).expect("the frame is the arena's")
    }

    #[inline(always)]
    fn number(self, name: &NonNull<u8>) -> Pfn {
        self.pfn_of(name.as_ptr()).expect("the block is the arena's")
    }
}

/// By number.
#[derive(Clone, Copy)]
struct ByNumber;

impl Naming for ByNumber {
    type Name = Pfn;

    #[inline(always)]
    fn name(self, pfn: Pfn) -> Pfn {
        pfn
    }

    #[inline(always)]
    fn number(self, name: &Pfn) -> Pfn {
        *name
    }
}

struct Plain<'a, N>(&'a Allocator<'static, Native>, N, Asked);

#[inline(never)]
fn plain_alloc<N: Naming>(
    pages: &Allocator<'static, Native>,
    naming: N,
    Asked { gfp, order }: Asked,
) -> Option<N::Name> {
    pages.alloc_pages(gfp, order).ok().map(|pfn| naming.name(pfn))
}

#[inline(never)]
fn plain_free<N: Naming>(pages: &Allocator<'static, Native>, naming: N, name: N::Name, order: Order) -> bool {
    pages.free_pages(naming.number(&name), order).is_ok()
}

impl<N: Naming> OneByOne for Plain<'_, N> {
    type Block = N::Name;

    #[inline(always)]
    fn one(&self) -> N::Name {
        plain_alloc(self.0, self.1, self.2).expect("there is memory")
    }

    #[inline(always)]
    fn back(&self, name: N::Name) {
        assert!(plain_free(self.0, self.1, name, self.2.order));
    }
}

struct ByLocal<'a, N>(Local<'a, 'static, Native>, N, Asked);

#[inline(never)]
fn local_alloc<N: Naming>(
    local: &Local<'_, 'static, Native>,
    naming: N,
    Asked { gfp, order }: Asked,
) -> Option<N::Name> {
    local.alloc_pages(gfp, order).ok().map(|pfn| naming.name(pfn))
}

#[inline(never)]
fn local_free<N: Naming>(local: &Local<'_, 'static, Native>, naming: N, name: N::Name, order: Order) -> bool {
    local.free(naming.number(&name), order).is_ok()
}

impl<N: Naming> OneByOne for ByLocal<'_, N> {
    type Block = N::Name;

    #[inline(always)]
    fn one(&self) -> N::Name {
        local_alloc(&self.0, self.1, self.2).expect("there is memory")
    }

    #[inline(always)]
    fn back(&self, name: N::Name) {
        assert!(local_free(&self.0, self.1, name, self.2.order));
    }
}

struct Bulk<'a, N>(&'a Allocator<'static, Native>, N, Asked);

impl<N: Naming> Caller for Bulk<'_, N> {
    type Block = N::Name;

    #[inline(always)]
    fn alloc(&mut self, names: &mut Vec<N::Name>) {
        let mut pfns = [Pfn(0); PAGES];
        assert_eq!(self.0.alloc_bulk(&self.2.request(), &mut pfns), Ok(PAGES));
        names.extend(pfns.iter().map(|&pfn| self.1.name(pfn)));
    }

    #[inline(always)]
    fn free(&mut self, names: &mut Vec<N::Name>) {
        let mut pfns = [Pfn(0); PAGES];
        let pfns = &mut pfns[..names.len()];
        pfns.iter_mut().zip(&*names).for_each(|(pfn, name)| *pfn = self.1.number(name));
        assert_eq!(self.0.free_bulk(pfns, self.2.order).freed, pfns.len());
        names.clear();
    }

    #[inline(always)]
    fn pair(&mut self, names: &mut Vec<N::Name>) {
        self.alloc(names);
        self.free(names);
    }
}

struct PlainArena<'a>(&'a Arena, Asked);

#[inline(never)]
fn arena_alloc(arena: &Arena, asked: Asked) -> Option<Pages<'_>> {
    arena.alloc(&asked.request()).ok()
}

impl<'a> OneByOne for PlainArena<'a> {
    type Block = Pages<'a>;

    #[inline(always)]
    fn one(&self) -> Pages<'a> {
        arena_alloc(self.0, self.1).expect("there is memory")
    }

    #[inline(always)]
    fn back(&self, pages: Pages<'a>) {
        drop(pages);
    }
}

struct LocalOfArena<'a>(LocalArena<'a>, Asked);

#[inline(never)]
fn arena_local_alloc<'a>(local: &LocalArena<'a>, asked: Asked) -> Option<Pages<'a>> {
    local.alloc(&asked.request()).ok()
}

#[inline(never)]
fn arena_local_free<'a>(local: &LocalArena<'a>, pages: Pages<'a>) {
    local.free(pages);
}

impl<'a> OneByOne for LocalOfArena<'a> {
    type Block = Pages<'a>;

    #[inline(always)]
    fn one(&self) -> Pages<'a> {
        arena_local_alloc(&self.0, self.1).expect("there is memory")
    }

    #[inline(always)]
    fn back(&self, pages: Pages<'a>) {
        arena_local_free(&self.0, pages);
    }
}

struct BulkArena<'a>(&'a Arena, Asked);

impl<'a> Caller for BulkArena<'a> {
    type Block = Pages<'a>;

    #[inline(always)]
    fn alloc(&mut self, pages: &mut Vec<Pages<'a>>) {
        assert_eq!(self.0.alloc_bulk(&self.1.request(), PAGES, pages), Ok(PAGES));
    }

    #[inline(always)]
    fn free(&mut self, pages: &mut Vec<Pages<'a>>) {
        pages.clear();
    }

    #[inline(always)]
    fn pair(&mut self, pages: &mut Vec<Pages<'a>>) {
        self.alloc(pages);
        self.free(pages);
    }
}

/// Does the work of one caller.
fn run(caller: &str, call: &str) -> Option<()> {
    let asked = Asked::page();
    if caller == "c" {
        let (mut options, mut arena, mut local) =
            (std::mem::MaybeUninit::<fw_options>::uninit(), null_mut(), null_mut());
        // SAFETY: all places are locals, of the sizes that are told.
        unsafe {
            assert_eq!(fw_options_init(options.as_mut_ptr(), size_of::<fw_options>()), FW_OK);
            let options = options.assume_init_mut();
            (options.bytes, options.flags) = (BYTES, FW_OPTION_NO_BACKGROUND);
            assert_eq!(fw_arena_create(options, &raw mut arena), FW_OK);
        }
        let order = asked.order.0.into();
        match call {
            "plain" => work(PlainC(arena, asked.gfp.0, order)),
            "bulk" => work(BulkC(arena, asked.gfp.0, order)),
            _ => {
                // SAFETY: the place is a local.
                assert_eq!(unsafe { fw_local_open(arena, &raw mut local) }, FW_OK);
                work(LocalC(local, asked.gfp.0, order));
            }
        }
        return Some(());
    }
    let arena = Arena::builder().size(BYTES).without_background().build().ok()?;
    // SAFETY: all blocks are freed by the caller that allocated them.
    let pages = unsafe { arena.allocator() };
    match (caller, call) {
        ("rust", "plain") => work(Plain(pages, &arena, asked)),
        ("rust", "local") => work(ByLocal(pages.local()?, &arena, asked)),
        ("rust", "bulk") => work(Bulk(pages, &arena, asked)),
        ("number", "plain") => work(Plain(pages, ByNumber, asked)),
        ("number", "local") => work(ByLocal(pages.local()?, ByNumber, asked)),
        ("number", "bulk") => work(Bulk(pages, ByNumber, asked)),
        ("arena", "plain") => work(PlainArena(&arena, asked)),
        ("arena", "local") => work(LocalOfArena(arena.local()?, asked)),
        ("arena", "bulk") => work(BulkArena(&arena, asked)),
        _ => return None,
    }
    Some(())
}

/// Prints the table.
fn table(counting: &Counting) -> Result<(), String> {
    println!("{:<12} {:>8} {:>8} {:>8} {:>8} {:>8}", "", "c", "rust", "c/rust", "number", "arena");
    for (call, what) in CALLS.iter().flat_map(|call| WHATS.map(|what| (call, what))) {
        let [c, rust, number, arena] = counting.counts(CALLERS, call, what)?;
        let ratio = c / rust;
        println!("{:<12} {c:>8.2} {rust:>8.2} {ratio:>8.3} {number:>8.2} {arena:>8.2}", format!("{call} {what}"));
    }
    Ok(())
}

fn main() -> ExitCode {
    let counting = Counting { name: "calls", usage: "c|rust|number|arena plain|local|bulk", blocks: PAGES * BATCHES };
    counting.main(table, run)
}
