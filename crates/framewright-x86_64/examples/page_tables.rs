//! Page tables of the crate `x86_64` in frames of Framewright, on the host.
//!
//! A buffer plays physical memory: its first byte has the address 0. It is full of garbage, as memory is when a kernel
//! starts.

use std::alloc::{Layout, alloc};

use framewright::{Config, NodeId, Order, PfnRange, Region, report};
use framewright_kernel::{Contexts, Framewright, Kernel, bytes, place};
use framewright_x86_64::Frames;
use x86_64::VirtAddr;
use x86_64::structures::paging::mapper::CleanUp;
use x86_64::structures::paging::{
    Mapper, OffsetPageTable, Page, PageSize, PageTable, PageTableFlags, PhysFrame, Size2MiB, Size4KiB, Translate,
};

/// Bytes of the buffer.
const MEMORY: usize = 64 << 20;
const PAGE_SHIFT: u8 = 12;

struct Host;

// SAFETY: the program has one thread and no interrupts.
unsafe impl Kernel for Host {
    const CONTEXTS: Contexts = Contexts::Tasks;
    fn pin(&self) {}
    fn unpin(&self) {}
    fn irq_save(&self) -> usize {
        0
    }
    fn irq_restore(&self, _: usize) {}
    fn cpu(&self) -> usize {
        0
    }
}

static PAGES: Framewright<Host> = Framewright::new();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layout = Layout::from_size_align(MEMORY, Size2MiB::SIZE as usize)?;
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc(layout) };
    assert!(!memory.is_null(), "no memory for the buffer");
    // SAFETY: the buffer has that many bytes.
    unsafe { memory.write_bytes(0xa5, MEMORY) };
    let physical = |frame: PhysFrame| memory.wrapping_add(frame.start_address().as_u64() as usize);

    // Boot: the descriptors lie in the buffer too, and the first MiB is left alone, as on a PC.
    let whole = PfnRange::within_bytes(0, MEMORY as u64, PAGE_SHIFT);
    let map = [Region::usable(0x100, whole.end.0, 0)];
    let config = Config::new(&map, &[NodeId(0)]);
    let bytes = bytes::<Host>(&config)?;
    let own = place(&config, bytes, whole).ok_or("no place for the descriptors")?;
    let start = own.bytes(PAGE_SHIFT).start as usize;
    // SAFETY: the bytes lie in the buffer, are initialised, and are reserved below.
    let block = unsafe { std::slice::from_raw_parts_mut(memory.add(start), bytes) };
    let pages = PAGES.boot(&Host, &Config { reserved: &[own], ..config }, own, block)?;
    let before = pages.validate()?.free;

    // SAFETY: the buffer is unused but for the descriptors, and no frame in use is freed.
    let mut frames = unsafe { Frames::new(pages) };
    let root: PhysFrame<Size4KiB> = frames.allocate()?;
    // SAFETY: the frame is in the buffer, and only this table uses it.
    let level_4 = unsafe { &mut *physical(root).cast::<PageTable>() };
    level_4.zero();
    // SAFETY: physical addresses begin at the buffer's start.
    let mut mapper = unsafe { OffsetPageTable::new(level_4, VirtAddr::from_ptr(memory)) };

    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    let small: (Page<Size4KiB>, _) = (Page::containing_address(VirtAddr::new(0x4000_0000)), frames.allocate()?);
    let huge: (Page<Size2MiB>, _) = (Page::containing_address(VirtAddr::new(0x8000_0000)), frames.allocate()?);
    // SAFETY: no program runs with these tables.
    unsafe {
        mapper.map_to(small.0, small.1, flags, &mut frames).map_err(|error| format!("{error:?}"))?.ignore();
        mapper.map_to(huge.0, huge.1, flags, &mut frames).map_err(|error| format!("{error:?}"))?.ignore();
    }
    for (page, frame) in [
        (small.0.start_address(), small.1.start_address()),
        (huge.0.start_address() + 0x12345, huge.1.start_address() + 0x12345),
    ] {
        println!("{page:?} is at {:?}", mapper.translate_addr(page).ok_or("not mapped")?);
        assert_eq!(mapper.translate_addr(page), Some(frame));
    }
    let in_use = before - pages.validate()?.free - (Order(0).frames() + Order(9).frames());
    println!("{in_use} frames of page tables, or kept by the CPU");

    // All of it goes back: pages, the tables below the root, the root.
    mapper.unmap(small.0).map_err(|error| format!("{error:?}"))?.1.ignore();
    mapper.unmap(huge.0).map_err(|error| format!("{error:?}"))?.1.ignore();
    // SAFETY: nothing uses the pages, and no table below the root has an entry left.
    unsafe {
        frames.deallocate(small.1)?;
        frames.deallocate(huge.1)?;
        mapper.clean_up(&mut frames);
        frames.deallocate(root)?;
    }
    pages.drain_all();
    assert_eq!(pages.validate()?.free, before, "every frame came back");
    assert_eq!(pages.counters().bad_frees, 0);
    print!("{}", report::BuddyInfo(pages));
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
