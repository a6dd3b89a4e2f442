//! Forks of the process.
//!
//! `fork` copies the memory as it is at that moment, and of the threads only the one that calls it. An allocator whose
//! lists another thread is just changing would be copied broken, with locks that nobody will open. So before a fork
//! each machine's allocator is brought to rest, and afterwards, in parent and child, let go again:
//!
//! | | |
//! |---|---|
//! | before | no machine is made or dropped from the registry; each machine's [`Freeze`] runs |
//! | parent | what the hooks returned is dropped |
//! | child | slots of threads that are not there are free, with their cached pages; what the hooks returned is dropped |
//!
//! From the first to the last of these the thread's interrupts wait ([`crate::interrupts`]); those that came are the parent's.
//!
//! A machine without a hook, or whose hook could not bring the allocator to rest, *refuses* in the child: it names a
//! CPU that does not exist, and the allocator answers "no CPU" to whatever needs one. That is the default, and the
//! right thing for memory that parent and child share (`MAP_SHARED`): two copies of the descriptors must not hand out
//! the same pages. Children that only execute another program never notice.
//!
//! A thread that forks while it is pinned (in a callback of the allocator, say) gets a child that refuses, because its
//! own operation keeps the allocator from coming to rest; it must not use what it pinned in the child.
//!
//! Handlers of other code for forks must not call an allocator: it may be at rest when they run.
//!
//! The registration for restartable sequences is the kernel's and inherited. Threads of [`crate::Background`] are not
//! in the child. Ways around `fork` of the C library (`clone` by system call, `vfork`) run no handlers: their children
//! must not allocate.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard, Once};

use crate::callbacks::Panics;
use crate::cpus::registry::{self, Freeze, Registered, Rest};
use crate::cpus::{Cpus, exit, rseq};
use crate::current;
use crate::fences;
use crate::interrupts::{self, Held};

/// How many forks lie between this process and the one that began.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// From a fork's beginning to its end. The fields are dropped in this order.
struct Fork {
    machines: Vec<(Option<Rest>, Arc<Cpus>)>,
    _registry: MutexGuard<'static, Vec<Registered>>,
    _held: Held,
}

thread_local! {
    // No destructor: a thread may fork while it exits.
    static UNDER_WAY: Cell<ManuallyDrop<Option<Fork>>> = const { Cell::new(ManuallyDrop::new(None)) };
}

/// Tells processes apart that have forked from one another.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Relaxed)
}

/// Has forks noticed from now on.
pub(crate) fn watch() {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the handlers are functions of this code, which stays loaded as long as the process can fork through
        // them. Without memory for them there is nothing to be done about forks.
        let _ = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

/// Has a machine looked after at forks. What `make` initialises is not found half done in a child.
pub(crate) fn register<W, E>(make: impl FnOnce() -> Result<(W, Cpus), E>) -> Result<(W, Arc<Cpus>), E> {
    watch();
    let mut machines = registry::lock();
    exit::watch_threads();
    let (way, cpus) = make()?;
    let cpus = Arc::new(cpus);
    registry::add(&mut machines, &cpus);
    Ok((way, cpus))
}

extern "C" fn prepare() {
    // A handler would wait for what this thread holds.
    let held = interrupts::hold();
    let registry = registry::lock();
    // In an interrupt: what it met may be in the middle of a call.
    let may_rest = !interrupts::is_in();
    let alive = |entry: &Registered| {
        let cpus = entry.cpus.upgrade()?;
        // A hook that panics could not bring the allocator to rest; a panic here would end the process.
        let freeze = |freeze: &Freeze| Panics::default().catch(freeze).flatten();
        Some((entry.freeze.as_ref().filter(|_| may_rest).and_then(freeze), cpus))
    };
    let machines = registry.iter().filter_map(alive).collect();
    UNDER_WAY.set(ManuallyDrop::new(Some(Fork { machines, _registry: registry, _held: held })));
}

fn take() -> Option<Fork> {
    ManuallyDrop::into_inner(UNDER_WAY.replace(ManuallyDrop::new(None)))
}

extern "C" fn parent() {
    drop(take());
}

extern "C" fn child() {
    let Some(fork) = take() else { return };
    GENERATION.fetch_add(1, Relaxed);
    interrupts::forget();
    fences::register();
    current::forget();
    let mine = [Some(current::mark()), rseq::mark()];
    for (frozen, cpus) in &fork.machines {
        cpus.enter_child(|owner| mine.contains(&Some(owner)), frozen.is_none());
    }
    drop(fork);
}
