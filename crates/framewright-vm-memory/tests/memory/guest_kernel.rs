//! A guest's allocator, by the kit for kernels, in the guest's memory: it reports and has a balloon.

use framewright::request::GFP_KERNEL;
use framewright::{Config, NodeId, Order, Pfn, PfnRange, Region, Request};
use framewright_kernel::{Contexts, Framewright, Kernel, Pages};
use framewright_vm_memory::{Balloon, BalloonDevice, Error, GuestMemoryArena, Reported, report_free};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

use crate::resident::{MIB, PAGE, guest_of, resident};

/// A guest with one CPU.
struct Guest;

// SAFETY: each guest of the tests is called by the thread of its test alone, which is its one CPU.
unsafe impl Kernel for Guest {
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

/// A guest of 64 MiB and its host's device.
struct Machine {
    memory: &'static GuestMemoryArena,
    pages: &'static Pages<Guest>,
    device: BalloonDevice,
}

/// Boots a guest whose allocator's descriptors lie in its own memory.
fn boot() -> Machine {
    let (_arena, memory) = guest_of(128 * MIB);
    // For good, because the allocator refers into it for good.
    let memory: &'static GuestMemoryArena = Box::leak(Box::new(memory));
    let map: Vec<Region> = memory
        .iter()
        .map(|region| Region::usable(region.start_addr().0 / PAGE, (region.last_addr().0 + 1) / PAGE, 0))
        .collect();
    let last = memory.iter().last().unwrap();
    let (first, end) = (last.start_addr().0 / PAGE, (last.last_addr().0 + 1) / PAGE);
    let host = last.get_host_address(MemoryRegionAddress(0)).unwrap();
    let bytes_of = |own: PfnRange| {
        let (at, len) = ((own.start.0 - first) * PAGE, own.frames() * PAGE);
        // SAFETY: the frames are in the region, which is never dropped, and reserved: no other code uses them.
        unsafe { std::slice::from_raw_parts_mut(host.add(at as usize), len as usize) }
    };
    let cell: &'static Framewright<Guest> = Box::leak(Box::new(Framewright::new()));
    let config = Config::new(&map, &[NodeId(0)]);
    let pages = cell.boot_within(&Guest, &config, PfnRange::new(first, end), bytes_of).unwrap();
    Machine { memory, pages, device: BalloonDevice::new(memory.clone()) }
}

impl Machine {
    /// Allocates pages of `bytes` bytes together and writes each one's number to it.
    fn write(&self, bytes: u64) -> Vec<Pfn> {
        let page = || {
            let pfn = self.pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
            self.memory.write_obj(pfn.0, GuestAddress(pfn.0 * PAGE)).unwrap();
            pfn
        };
        (0..bytes / PAGE).map(|_| page()).collect()
    }

    fn check(&self, pages: &[Pfn]) {
        for pfn in pages {
            assert_eq!(self.memory.read_obj::<u64>(GuestAddress(pfn.0 * PAGE)).unwrap(), pfn.0);
        }
        self.pages.validate().unwrap();
    }

    fn free(&self, pages: impl IntoIterator<Item = Pfn>) {
        pages.into_iter().for_each(|pfn| self.pages.free(pfn, Order(0)).unwrap());
    }

    fn report(&mut self) -> Reported {
        let device = &mut self.device;
        report_free(self.pages, Order(9), |start, bytes| device.report(start, bytes).map(|_| ())).unwrap()
    }
}

#[test]
fn what_a_guest_frees_leaves_the_host() {
    let mut machine = boot();
    // At first all of the guest's memory is free, and the host has none but the descriptors.
    let descriptors = resident(machine.memory);
    assert!(machine.report().bytes >= 62 * MIB);
    assert_eq!(resident(machine.memory), descriptors, "no descriptor was given back");
    let mut pages = machine.write(40 * MIB);
    assert_eq!(resident(machine.memory), descriptors + 40 * MIB);
    let kept = pages.split_off(2560);
    machine.free(pages);
    let before = resident(machine.memory);
    let given = machine.device.given_back();
    let told = machine.report();
    assert!(told.bytes >= 8 * MIB && told.blocks > 0, "{told:?}");
    assert_eq!(machine.device.given_back() - given, told.bytes);
    // 10 MiB were freed. What lies in blocks below 2 MiB, and what keeps the zones above their low marks, stays.
    let fallen = before - resident(machine.memory);
    assert!((8 * MIB..=10 * MIB).contains(&fallen), "{fallen}");
    machine.check(&kept);
    assert_eq!(machine.report(), Reported::default(), "nothing is told twice");
    machine.free(kept);
    assert!(machine.report().bytes >= 28 * MIB);
    assert!(resident(machine.memory) <= descriptors + 2 * MIB);
    machine.pages.validate().unwrap();
}

#[test]
fn a_refused_report_is_told_again() {
    let mut machine = boot();
    let refused = report_free(machine.pages, Order(9), |start, bytes| Err(Error::NotMemory { start: start.0, bytes }));
    assert!(matches!(refused, Err(Error::NotMemory { .. })));
    assert_eq!(machine.pages.validate().unwrap().allocated, 0, "the batch is free again");
    assert!(machine.report().bytes >= 62 * MIB);
    assert!(matches!(report_free(machine.pages, Order(11), |_, _| Ok(())), Err(Error::Guest(_))));
}

#[test]
fn a_balloon_takes_memory_and_gives_it_back() {
    let mut machine = boot();
    let descriptors = resident(machine.memory);
    let pages = machine.write(60 * MIB);
    let (kept, freed): (Vec<Pfn>, Vec<Pfn>) = pages.into_iter().partition(|pfn| pfn.0 & 1 << 12 == 0);
    machine.free(freed);
    let before = resident(machine.memory);
    let (mut balloon, device) = (Balloon::new(), &mut machine.device);
    let frames = 20 << 8;
    let taken =
        balloon.inflate(machine.pages, frames, |start, bytes| device.inflate(start, bytes).map(|_| ())).unwrap();
    assert_eq!((taken, balloon.held(), device.inflated()), (frames, frames, frames * PAGE));
    let fallen = before - resident(machine.memory);
    assert!((16 * MIB..=20 * MIB).contains(&fallen), "{fallen}");
    machine.check(&kept);

    // More than there is: the balloon takes what it can without touching the reserves, and tells how much.
    let device = &mut machine.device;
    let more =
        balloon.inflate(machine.pages, 1 << 20, |start, bytes| device.inflate(start, bytes).map(|_| ())).unwrap();
    assert!(more > 0 && more < 1 << 20);
    assert_eq!(device.inflated(), (frames + more) * PAGE);
    machine.check(&kept);

    // A host that refuses keeps its balloon.
    let device = &mut machine.device;
    let refused = balloon.deflate(machine.pages, 1, |start, bytes| Err(Error::NotMemory { start: start.0, bytes }));
    assert!(refused.is_err() && balloon.held() == frames + more);
    let given = balloon.deflate(machine.pages, u64::MAX, |start, bytes| device.deflate(start, bytes)).unwrap();
    assert_eq!((given, balloon.held(), device.inflated()), (frames + more, 0, 0));
    machine.check(&kept);
    machine.free(kept);
    machine.report();
    assert!(resident(machine.memory) <= descriptors + 2 * MIB);
    assert_eq!(machine.pages.validate().unwrap().allocated, 0);
}

#[test]
fn a_refused_inflation_leaves_the_block_free() {
    let machine = boot();
    let mut balloon = Balloon::new();
    let refused = balloon.inflate(machine.pages, 512, |start, bytes| Err(Error::NotMemory { start: start.0, bytes }));
    assert!(refused.is_err());
    assert_eq!((balloon.held(), machine.pages.validate().unwrap().allocated), (0, 0));
}
