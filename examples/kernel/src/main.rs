//! A small x86-64 kernel for several CPUs whose page allocator is Framewright. `README.md` says how to run it.
//!
//! The files stand below in the order in which the machine comes up. What a kernel of your own needs of them is
//! `pages.rs`, and from `cpu.rs`, `instructions.rs` and `fence.rs` the functions that it names.
#![no_std]
#![no_main]

mod boot; // the first instructions of every CPU
mod instructions; // those that Rust has no name for
mod lock; // a spin lock that holds interrupts off
mod serial; // the console, and the way out
mod pvh; // what the loader tells: memory, command line
mod acpi; // which CPUs there are
mod cpu; // a CPU's own words in %gs: number, preemption, context
mod interrupts; // the table, the stubs, where vectors lead
mod apic; // timer, interrupts to other CPUs, the clock
mod plant; // mistakes to be found
mod fence; // every other CPU passes a full fence
mod pages; // the allocator: this kernel as it sees it, and its boot
mod smp; // the other CPUs
mod threads; // preemptive, on any CPU
mod litmus; // whether this machine needs fences at all
mod tag; // each page says whose it is
mod owner; // allocates, tags, exchanges, checks and frees
mod stress; // threads, interrupts and NMIs that do so
mod report; // wrong pages, state at rest, counts
#[cfg(not(target_os = "none"))]
mod memory_functions; // memcpy and others, for the host's target

use serial::println;

/// What the first CPU does, in long mode; `info` is the address of the loader's start information.
extern "C" fn first_cpu(info: usize) -> ! {
    cpu::enter(0);
    interrupts::fill();
    interrupts::load();
    // SAFETY: the address that the loader passed.
    let Some(loaded) = (unsafe { pvh::Loaded::at(info) }) else {
        serial::refuse(format_args!("no start information of PVH, version 1 or later"))
    };
    if !plant::set(loaded.option("plant").unwrap_or("none")) {
        serial::refuse(format_args!("plant= has no such value"));
    }
    let Ok(seconds) = loaded.option("seconds").unwrap_or("10").parse() else {
        serial::refuse(format_args!("seconds= is no number"))
    };

    let mut apics = [0; cpu::MAX_CPUS];
    let mut cpus = 0;
    let base = acpi::cpus(loaded.acpi_root(), |apic| {
        if let Some(place) = apics.get_mut(cpus) {
            *place = apic;
            cpus += 1;
        }
    });
    let Some(base) = base else { serial::refuse(format_args!("firmware has no table of CPUs")) };
    apic::set_base(base);
    apic::enable();

    pages::boot(loaded, cpus);
    let others = apics[..cpus].iter().filter(|&&number| number != apic::own_number());
    smp::start(others.copied(), pages::stack);
    println!("kernel: {} CPUs, stress for {seconds} s", smp::count());
    instructions::enable_interrupts();
    if plant::is(plant::Plant::FenceReachesNobody) {
        litmus::run();
    }
    stress::run(seconds);
    serial::exit(report::at_rest())
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    serial::die(format_args!("{info}"))
}
