//! The parties that are asked for an arena's memory, and their order.
//!
//! Movable pages come first, then the shrinkers, and last the program's own callbacks.
//!
//! # Why the unsafe code is right
//!
//! The allocator calls `migrate` through the arena's own machine. It names a block that it has just allocated in the
//! arena's memory, and uses it when the call has returned. The pool's memory is the arena's ([`super::build`]).

use std::fmt;
use std::sync::Arc;

use framewright::machine::{Busy, Need};
use framewright::{Order, Pfn};

use crate::callbacks::Callbacks;
use crate::contents::Given;
use crate::movable::{self, PageOwner, Pool, Shrink};

/// The parties that are asked for memory.
#[derive(Clone, Default)]
pub(super) struct Asked {
    pub(super) owner: Option<Arc<dyn PageOwner>>,
    pub(super) shrinkers: Vec<Arc<dyn Shrink>>,
    pub(super) callbacks: Option<Arc<dyn Callbacks>>,
}

impl Asked {
    /// The calls of these parties, and of the movable pages first.
    pub(super) fn calls(&self, pool: &Arc<Pool>) -> Calls {
        let first: [Arc<dyn Shrink>; 1] = [pool.clone()];
        let shrinkers = first.into_iter().chain(self.shrinkers.iter().cloned()).collect();
        Calls { pool: Arc::clone(pool), shrinkers, own: self.callbacks.clone() }
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, own) = (self.owner.is_some(), self.callbacks.is_some());
        write!(f, "Asked {{ owner: {owner}, shrinkers: {}, callbacks: {own} }}", self.shrinkers.len())
    }
}

/// The callbacks of an arena.
///
/// Only its machine calls them, with frames that the allocator found and a block that it just allocated.
pub(super) struct Calls {
    pool: Arc<Pool>,
    shrinkers: Vec<Arc<dyn Shrink>>,
    own: Option<Arc<dyn Callbacks>>,
}

impl Callbacks for Calls {
    fn reclaim(&self, need: &Need) -> u64 {
        let panics = self.pool.panics();
        let freed = movable::reclaim(&self.shrinkers, need, panics);
        match &self.own {
            Some(own) if freed < need.frames => {
                let rest = Need { frames: need.frames - freed, ..*need };
                freed.saturating_add(panics.catch(|| own.reclaim(&rest)).unwrap_or(0))
            }
            _ => freed,
        }
    }

    fn migrates(&self) -> bool {
        let own = || self.own.as_ref().and_then(|own| self.pool.panics().catch(|| own.migrates()));
        self.pool.has_pages() || own().unwrap_or(false)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        if !self.pool.knows(from) {
            let own = self.own.as_ref().ok_or(Busy)?;
            return self.pool.panics().catch(|| own.migrate(from, to, order)).unwrap_or(Err(Busy));
        }
        // SAFETY: the allocator gave us `to`, which is a block of its arena, and of the pool's memory, for this call.
        let to = unsafe { Given::new(to, order) };
        self.pool.migrate(from, &to)
    }
}
