//! The machines of this process, and how each is brought to rest before a fork.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::slots::Cpus;

/// Brings an allocator to rest before a fork; none if it could not, and then the child refuses.
///
/// No operation is under way and none begins, until the returned guard is dropped, in the parent and in the child.
/// Called on the forking thread; must not make machines. It should hold the allocator's owner weakly, because it stays
/// registered.
pub type Freeze = Box<dyn Fn() -> Option<Rest> + Send + Sync>;

/// Keeps an allocator at rest until it is dropped.
pub type Rest = Box<dyn Any>;

pub(crate) struct Registered {
    pub(crate) cpus: Weak<Cpus>,
    pub(crate) freeze: Option<Freeze>,
}

/// Machines of this process. Locked while it forks.
static MACHINES: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// Locks the machines of this process.
pub(crate) fn lock() -> MutexGuard<'static, Vec<Registered>> {
    MACHINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a machine, without a way to bring it to rest.
pub(crate) fn add(machines: &mut Vec<Registered>, cpus: &Arc<Cpus>) {
    machines.retain(|entry| entry.cpus.strong_count() != 0);
    machines.push(Registered { cpus: Arc::downgrade(cpus), freeze: None });
}

/// Sets the way to bring a machine to rest before a fork; without one, its children refuse.
pub(crate) fn set_hook(cpus: &Cpus, freeze: Option<Freeze>) {
    let mut machines = lock();
    let entry = machines.iter_mut().find(|entry| entry.cpus.upgrade().is_some_and(|known| known.id == cpus.id));
    let replaced = entry.map(|entry| std::mem::replace(&mut entry.freeze, freeze));
    drop(machines);
    drop(replaced);
}

/// Frees the slots of any machine that an exiting thread still has.
pub(crate) fn release_all(mark: usize) {
    lock().iter().filter_map(|entry| entry.cpus.upgrade()).for_each(|cpus| cpus.release(mark));
}
