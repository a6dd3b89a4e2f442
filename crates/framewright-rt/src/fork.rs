//! Forks of the process.
//!
//! `fork` copies the memory as it is at that moment, and of the threads only the caller. Lists that another thread is
//! changing would be copied broken, with locks that no thread will release. So each machine's allocator is brought to
//! rest before a fork, and released afterwards in parent and child:
//!
//! | | |
//! |---|---|
//! | before | no machine is made or dropped from the registry; each machine's [`Freeze`] runs |
//! | parent | the hooks' guards are dropped |
//! | child | slots of threads that do not exist here are free, with their cached pages; the hooks' guards are dropped |
//!
//! The thread's interrupts wait from the first to the last of these ([`crate::interrupts`]); pending ones are the
//! parent's.
//!
//! A machine *refuses* in the child if it has no hook, or if its hook could not bring the allocator to rest. It names a
//! CPU that does not exist, and the allocator answers "no CPU" to any call that needs one. That is the default. It is
//! right for memory that parent and child share (`MAP_SHARED`): two copies of the descriptors must not hand out one
//! page twice. Children that only execute another program never notice.
//!
//! A thread that forks while it is pinned (in a callback of the allocator, for example) gets a child that refuses. Its
//! own operation keeps the allocator from coming to rest. The child must not use that pin.
//!
//! Fork handlers of other code must not call an allocator: it may be at rest when they run.
//!
//! The registration for restartable sequences is the kernel's and is inherited. Threads of [`crate::Background`] do not
//! exist in the child. Other ways to fork (`clone` by system call, `vfork`) run no handlers: their children must not
//! allocate.
//!
//! # Why the unsafe code is right
//!
//! The C library calls the three handlers at forks and for no other reason. They are functions of this code, which
//! stays loaded as long as the process can fork through them.

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

/// Installs the fork handlers, at the first call.
pub(crate) fn watch() {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the handlers are functions of this code, which stays loaded as long as the process can fork through
        // them. Without memory for them there is nothing to be done about forks.
        let _ = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

/// Registers a machine, so that forks take care of it.
///
/// A child never finds a half-done `make`: no fork runs meanwhile.
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
    // A handler would wait for this thread's locks.
    let held = interrupts::hold();
    let registry = registry::lock();
    // The code that an interrupt hit may be inside a call of the allocator.
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
