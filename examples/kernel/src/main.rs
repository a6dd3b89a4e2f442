//! A small kernel for several CPUs whose page allocator is Framewright. `README.md` says how to run it.
//!
//! The files stand below in the order in which the machine comes up. What a kernel of your own needs of them is
//! `pages.rs`, and what it names of `arch`, `cpu.rs` and `fence.rs`.
#![no_std]
#![no_main]

/// The machine: a folder for each architecture, with the same names.
///
/// | name | what it is |
/// |---|---|
/// | `enter(number)` | makes the calling CPU the CPU of that number, with an interrupt stack |
/// | `Loaded`: `at`, `memory`, `option`, `in_use` | what the loader tells; memory as ranges of bytes |
/// | `MAPPED` | end of the memory that is mapped, each byte at its physical address |
/// | `prepare`, `Name`, `own_name` | finds the interrupt controller and the CPUs, by firmware's names for them |
/// | `enable`, `set_timer`, `send` | interrupts of this CPU; one of its timer, later; one to another CPU |
/// | `wake` | makes another CPU call `smp::other_cpu` |
/// | `number`, `pin`, `end_pin`, `is_preemptible`, `running`, `set_running` | a CPU's own words (`cpu.rs`) |
/// | `irq_save`, `irq_restore`, `is_interruptible`, `enable_interrupts`, `wait_for_interrupt` | interrupts on and off |
/// | `Frame`: `EMPTY`, `calling`; `give_way` | an interrupted thread; interrupts the running one |
/// | `nanoseconds` | the clock |
/// | `put`, `exit` | a byte to the console; the end |
///
/// It calls [`first_cpu`], `smp::other_cpu`, and `events::take` for each interrupt.
#[cfg_attr(target_arch = "x86_64", path = "arch/x86_64/mod.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arch/aarch64/mod.rs")]
mod arch;
mod lock; // a spin lock that holds interrupts off
mod serial; // the console, and the way out
mod cpu; // a CPU's own words: number, preemption, context
mod events; // where interrupts lead
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

use serial::println;

/// What the first CPU does on its stack; `info` is the address of what the loader tells.
extern "C" fn first_cpu(info: usize) -> ! {
    arch::enter(0);
    // SAFETY: the address that the loader passed.
    let Some(loaded) = (unsafe { arch::Loaded::at(info) }) else {
        serial::refuse(format_args!("the loader does not say what memory there is"))
    };
    if !plant::set(loaded.option("plant").unwrap_or("none")) {
        serial::refuse(format_args!("plant= has no such value"));
    }
    let Ok(seconds) = loaded.option("seconds").unwrap_or("10").parse() else {
        serial::refuse(format_args!("seconds= is no number"))
    };

    let mut names = [0; cpu::MAX_CPUS];
    let mut cpus = 0;
    arch::prepare(loaded, |name| {
        if let Some(place) = names.get_mut(cpus) {
            *place = name;
            cpus += 1;
        }
    });
    arch::enable();

    pages::boot(loaded, cpus);
    let others = names[..cpus].iter().filter(|&&name| name != arch::own_name());
    smp::start(others.copied(), pages::stack);
    println!("kernel: {} CPUs, stress for {seconds} s", smp::count());
    arch::enable_interrupts();
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
