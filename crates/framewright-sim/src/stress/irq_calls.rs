//! The calls of interrupts and NMIs in a stress test.
//!
//! An interrupt makes ordinary calls, as the mechanisms allow: on lists of its own, or past lists that are in use. An
//! NMI comes at any access to a word: inside the fast path, a lock section, an interrupt, or another NMI that works on
//! the same list. It makes the calls for any context, which must neither wait for the interrupted code nor disturb it.
//!
//! Each CPU keeps what its interrupts and NMIs allocate in one stash. Interrupts free by ordinary calls what NMIs got,
//! and the other way round. NMIs also free what tasks allocated.
//!
//! Nothing is borrowed across a call of the allocator, because the next NMI may come in it.

use framewright::request::{__GFP_MOVABLE, __GFP_RECLAIMABLE, GFP_ATOMIC, GFP_NOWAIT};
use framewright::{AllocError, Order, Pfn, Request};
use framewright_ops::Handle;

use super::player::Player;
use super::wrong::{Kind, Wrong};
use crate::engine::here;

/// Most blocks in a CPU's stash.
const MOST_KEPT: usize = 6;

impl Player<'_> {
    /// Handles an interrupt: allocates a small block, or frees one.
    pub(crate) fn interrupt(&self, cpu: usize) {
        // After a CPU's last operation others may take it offline; and a panic must end things, not begin any.
        if self.resting[cpu].get() || self.is_wrong() || std::thread::panicking() {
            return;
        }
        self.count(|counts| counts.interrupts += 1);
        let result = self.play_interrupt(cpu, here::random());
        self.note("an interrupt", cpu, result);
    }

    /// Handles an NMI.
    pub(crate) fn nmi(&self, cpu: usize) {
        if self.resting[cpu].get() || self.is_wrong() || std::thread::panicking() {
            return;
        }
        self.count(|counts| counts.nmis += 1);
        let dice = here::random();
        let result = if self.waits_in_nmi { self.play_interrupt(cpu, dice) } else { self.play_nmi(cpu, dice) };
        self.note("an NMI", cpu, result);
    }

    fn note(&self, context: &str, cpu: usize, result: Result<(), Wrong>) {
        if let Err(Wrong { kind, text }) = result {
            self.found(Wrong { kind, text: format!("CPU {cpu}, in {context}: {text}") });
        }
    }

    fn play_interrupt(&self, cpu: usize, dice: u64) -> Result<(), Wrong> {
        let kept = self.stashes[cpu].borrow().len();
        if kept == 0 || kept < MOST_KEPT && dice & 1 == 0 {
            let order = Order((dice >> 1) as u8 & 1);
            let Ok(pfn) = self.pages.alloc(&Request::new(GFP_ATOMIC, order.0)) else { return Ok(()) };
            return self.stash(cpu, (pfn, order));
        }
        let block = self.stashes[cpu].borrow_mut().swap_remove((dice >> 1) as usize % kept);
        self.give_back(&None, &[block])
    }

    fn play_nmi(&self, cpu: usize, dice: u64) -> Result<(), Wrong> {
        let kept = self.stashes[cpu].borrow().len();
        let number = (dice >> 32) as u32;
        match dice % 16 {
            0 => self.refuse_in_nmi(cpu, number),
            1 | 2 => self.free_anybodys(cpu, number),
            3..=9 if kept < MOST_KEPT => self.alloc_nolock(cpu, number),
            _ if kept == 0 => Ok(()),
            _ => {
                let block = self.stashes[cpu].borrow_mut().swap_remove(number as usize % kept);
                self.free_nolock(cpu, block)
            }
        }
    }

    fn alloc_nolock(&self, cpu: usize, number: u32) -> Result<(), Wrong> {
        let flags = [GFP_ATOMIC, GFP_NOWAIT, GFP_NOWAIT | __GFP_MOVABLE, GFP_NOWAIT | __GFP_RECLAIMABLE];
        let gfp = flags[number as usize % flags.len()];
        let order = Order([0, 0, 0, 0, 1, 1, 2, 3][(number >> 8) as usize % 8]);
        match self.pages.alloc_nolock(&Request::new(gfp, order.0)) {
            Ok(pfn) => self.stash(cpu, (pfn, order)),
            Err(AllocError::Locked) => {
                self.count(|counts| counts.locked += 1);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// Frees the blocks of some handle, which any CPU may have allocated.
    fn free_anybodys(&self, cpu: usize, number: u32) -> Result<(), Wrong> {
        let Some((_, blocks)) = self.anybodys(cpu, number) else { return Ok(()) };
        blocks.into_iter().try_for_each(|block| self.free_nolock(cpu, block))
    }

    /// Takes the blocks of some handle.
    fn anybodys(&self, cpu: usize, number: u32) -> Option<(Handle, Vec<(Pfn, Order)>)> {
        let handle = self.shadow.borrow().any_from(number >> 16)?;
        Some((handle, self.take(cpu, handle)?))
    }

    /// Makes a call that needs a CPU, or a wrong free: it must be refused, without waiting.
    fn refuse_in_nmi(&self, cpu: usize, number: u32) -> Result<(), Wrong> {
        let Some((handle, blocks)) = self.anybodys(cpu, number) else { return Ok(()) };
        let (pfn, order) = blocks[0];
        let request = Request::new(GFP_ATOMIC, 0);
        let served = match number % 7 {
            0 => self.pages.alloc(&request).is_ok(),
            1 => self.pages.free(pfn, order).is_ok(),
            2 => self.pages.interrupt().is_some(),
            3 => self.pages.alloc_bulk(&request, &mut [Pfn(0); 3]).is_ok_and(|served| served != 0),
            4 => self.pages.drain_all() != 0,
            5 => self.pages.free_nolock(pfn, Order(order.0 + 1)).is_ok(),
            _ => order.0 != 0 && self.pages.free_nolock(pfn.add(1), Order(0)).is_ok(),
        };
        self.shadow.borrow_mut().put(cpu, handle, blocks);
        self.count(|counts| counts.refused += 1);
        let text = || format!("call {} of those that must be refused there, at block {pfn}, was not", number % 7);
        if served { Err(Wrong { kind: Kind::Free, text: text() }) } else { Ok(()) }
    }
}
