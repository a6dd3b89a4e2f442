//! A virtual machine whose memory is an arena's: its processor sees what the device gave back.
//!
//! Skipped, loudly, where `/dev/kvm` cannot be used, or does not run a first program within ten seconds: some hosts
//! have the device, and a processor that never returns.

use std::io::Write;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use framewright_vm_memory::{BalloonDevice, GuestMemoryArena, GuestRange, from_ranges};
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

use crate::resident::{MIB, PAGE, builder, mark, resident};

/// Where the program lies.
const START: u64 = PAGE;
/// What it writes.
const WRITTEN: u8 = 0x77;
/// The program, in real mode: tells the host the byte at `ds:0`, and overwrites it.
const PROGRAM: [u8; 11] = [
    0xa0, 0x00, 0x00, // mov al, [0]
    0xe6, 0x10, // out 0x10, al
    0xc6, 0x06, 0x00, 0x00, WRITTEN, // mov byte [0], 0x77
    0xf4,    // hlt
];

/// Makes a machine with one processor, and a slot for each region.
fn machine(memory: &GuestMemoryArena) -> Result<(VmFd, VcpuFd), kvm_ioctls::Error> {
    let vm = Kvm::new()?.create_vm()?;
    for (region, slot) in memory.iter().zip(0..) {
        let host = region.get_host_address(MemoryRegionAddress(0)).unwrap();
        let slot = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr: region.start_addr().0,
            memory_size: region.len(),
            userspace_addr: host.addr() as u64,
        };
        // SAFETY: the region is mapped, and outlives the machine.
        unsafe { vm.set_user_memory_region(slot) }?;
    }
    let processor = vm.create_vcpu(0)?;
    Ok((vm, processor))
}

/// Runs the program on the byte at an address; returns what it read there.
fn run(processor: &mut VcpuFd, address: u64) -> u8 {
    let mut segments = processor.get_sregs().unwrap();
    (segments.cs.base, segments.cs.selector) = (0, 0);
    segments.ds.base = address;
    processor.set_sregs(&segments).unwrap();
    let mut registers = processor.get_regs().unwrap();
    (registers.rip, registers.rflags) = (START, 2);
    processor.set_regs(&registers).unwrap();
    let mut read = None;
    loop {
        match processor.run().unwrap() {
            VcpuExit::IoOut(0x10, bytes) => read = bytes.first().copied(),
            VcpuExit::Hlt => return read.expect("the program told a byte"),
            other => panic!("{other:?}"),
        }
    }
}

/// Returns why no machine runs here; `None` if one does.
fn hindrance() -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    // A thread that does not return ends with the process.
    thread::spawn(move || {
        let arena = Arc::new(builder(4 * MIB).build().unwrap());
        let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 2 * MIB)]).unwrap();
        memory.write_slice(&PROGRAM, GuestAddress(START)).unwrap();
        let ran = machine(&memory).map(|(_vm, mut processor)| run(&mut processor, MIB));
        let _ = sender.send(ran.map(drop));
    });
    match receiver.recv_timeout(Duration::from_secs(10)) {
        Ok(ran) => ran.err().map(|error| error.to_string()),
        Err(_) => Some("its processor does not return".into()),
    }
}

#[test]
fn a_processor_sees_what_the_device_gave_back() {
    if let Some(why) = hindrance() {
        // Not by `eprintln!`: what a passing test prints is not shown.
        let _ = writeln!(std::io::stderr(), "SKIPPED: a virtual machine on guest memory: /dev/kvm: {why}");
        return;
    }
    let arena = Arc::new(builder(64 * MIB).build().unwrap());
    let memory: GuestMemoryArena = from_ranges(&arena, &[GuestRange::new(GuestAddress(0), 24 * MIB)]).unwrap();
    let (_vm, mut processor) = machine(&memory).unwrap();
    let mut device = BalloonDevice::new(memory.clone());
    mark(&memory);
    memory.write_slice(&PROGRAM, GuestAddress(START)).unwrap();
    // In each of the two regions.
    let (used, free) = ([3 * MIB, 18 * MIB], [8 * MIB, 20 * MIB]);
    for address in used.into_iter().chain(free) {
        assert_eq!(run(&mut processor, address), (!address) as u8, "as the host wrote it");
        assert_eq!(memory.read_obj::<u8>(GuestAddress(address)).unwrap(), WRITTEN, "as the guest wrote it");
    }
    let before = resident(&memory);
    for address in free {
        assert_eq!(device.report(GuestAddress(address), 2 * MIB).unwrap(), 2 * MIB);
    }
    device.inflate(GuestAddress(12 * MIB), 2 * MIB).unwrap();
    assert_eq!(before - resident(&memory), 6 * MIB);
    for address in used {
        assert_eq!(run(&mut processor, address), WRITTEN, "what was not reported stays");
    }
    assert_eq!(before - resident(&memory), 6 * MIB);
    for address in free {
        assert_eq!(run(&mut processor, address), 0, "what was reported reads as zero");
        assert_eq!(run(&mut processor, address), WRITTEN, "and is the guest's again");
    }
    device.deflate(GuestAddress(12 * MIB), 2 * MIB).unwrap();
    assert_eq!(run(&mut processor, 12 * MIB), 0);
    assert_eq!(before - resident(&memory), 6 * MIB - 3 * PAGE, "a page for each first use");
}
