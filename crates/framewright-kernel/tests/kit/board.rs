//! Kernels for tests: each thread is a CPU, and says in which context it runs.

use std::cell::Cell;

use framewright::{Config, NodeId, PfnRange, Region};
use framewright_kernel::{Context, Contexts, Error, Fences, Framewright, Kernel, Pages};

/// What a CPU knows of itself.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub(crate) cpu: usize,
    pub(crate) context: Context,
    /// Pins that have not ended.
    pub(crate) pins: usize,
    /// Interrupts that are held off, once for each guard.
    pub(crate) irqs_off: usize,
    /// Calls of `pin` and `irq_save` so far.
    pub(crate) calls: [usize; 2],
}

thread_local! {
    static HERE: Cell<Here> = const {
        Cell::new(Here { cpu: 0, context: Context::Task, pins: 0, irqs_off: 0, calls: [0; 2] })
    };
}

/// Returns what the thread is.
pub(crate) fn here() -> Here {
    HERE.get()
}

fn change(change: impl FnOnce(&mut Here)) {
    let mut here = HERE.get();
    change(&mut here);
    HERE.set(here);
}

/// Makes the thread a CPU in a context.
pub(crate) fn run_on(cpu: usize, context: Context) {
    change(|here| (here.cpu, here.context) = (cpu, context));
}

/// A kernel whose contexts are [`ALL`]`[CONTEXTS]`.
pub(crate) struct Board<const CONTEXTS: usize>;

/// Every choice, in the order of [`Board`]'s parameter.
pub(crate) const ALL: [Contexts; 4] =
    [Contexts::Tasks, Contexts::InterruptsOff, Contexts::Interrupts, Contexts::Softirqs];

// SAFETY: a thread is one CPU in one context at a time, and tests give no two threads the same number.
unsafe impl<const CONTEXTS: usize> Kernel for Board<CONTEXTS> {
    const CONTEXTS: Contexts = ALL[CONTEXTS];

    fn pin(&self) {
        assert_ne!(Self::CONTEXTS, Contexts::InterruptsOff);
        change(|here| (here.pins, here.calls[0]) = (here.pins + 1, here.calls[0] + 1));
    }

    fn unpin(&self) {
        change(|here| here.pins = here.pins.checked_sub(1).expect("a pin"));
    }

    fn irq_save(&self) -> usize {
        let before = HERE.get().irqs_off;
        change(|here| (here.irqs_off, here.calls[1]) = (before + 1, here.calls[1] + 1));
        before
    }

    fn irq_restore(&self, saved: usize) {
        assert_eq!(HERE.get().irqs_off, saved + 1, "guards end in their order");
        change(|here| here.irqs_off = saved);
    }

    fn cpu(&self) -> usize {
        HERE.get().cpu
    }

    fn context(&self) -> Context {
        HERE.get().context
    }
}

/// Makes a kernel that one thread uses: it has what is given, and for the rest what must be written and no more.
macro_rules! of_one_thread {
    ($kernel:ident: $($given:tt)*) => {
        // SAFETY: one thread uses it, and what it says of its memory is so.
        unsafe impl Kernel for $kernel {
            $($given)*
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
    };
}
pub(crate) use of_one_thread;

/// A kernel that writes what must be written, and no more.
pub(crate) struct Least;

of_one_thread! {
    Least:
    const CONTEXTS: Contexts = Contexts::Tasks;
}

/// A kernel of one CPU, without fences.
pub(crate) struct Single;

of_one_thread! {
    Single:
    const CONTEXTS: Contexts = Contexts::InterruptsOff;
    const FENCES: Fences<Self> = Fences::OneCpu;
}

/// 64 MiB from 16 MiB on, on one node.
pub(crate) const MEMORY: [Region; 1] = [Region::usable(0x1000, 0x5000, 0)];

/// A block of `len` bytes that lies `skew` bytes behind an aligned address, full of dirt.
pub(crate) fn block(len: usize, skew: usize) -> &'static mut [u8] {
    let bytes = Vec::leak(vec![0xa5_u8; len + 256 + skew]);
    let aligned = bytes.as_ptr().align_offset(256);
    &mut bytes[aligned + skew..aligned + skew + len]
}

/// Boots as a kernel does, with descriptors in the highest place.
pub(crate) fn boot<K: Kernel>(kernel: &'static K, config: &Config<'_>) -> Result<&'static Pages<K>, Error> {
    let cell: &'static Framewright<K> = Box::leak(Box::new(Framewright::new()));
    let shift = config.geometry.page_shift;
    cell.boot_within(kernel, config, PfnRange::new(0, u64::MAX), |own| block((own.frames() << shift) as usize, 0))
}

/// Boots on [`MEMORY`] with `cpus` CPUs.
pub(crate) fn small<K: Kernel>(kernel: &'static K, cpus: usize) -> &'static Pages<K> {
    boot(kernel, &Config::new(&MEMORY, &vec![NodeId(0); cpus])).unwrap()
}
