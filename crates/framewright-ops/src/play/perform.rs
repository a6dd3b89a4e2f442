//! Carries out one operation, by the method for its kind.

use framewright::AllocError;

use crate::language::{Op, Outcome, Wrong};
use crate::oracle::rights::contradict;
use crate::play::player::Player;

impl Player<'_> {
    /// Carries out one operation.
    ///
    /// # Errors
    /// The allocator's answer is wrong.
    pub(crate) fn perform(&self, op: &Op) -> Result<Outcome, Wrong> {
        let outcome = match *op {
            Op::Alloc { name, order, terms } => self.alloc(name, terms.request(order)),
            Op::AllocNolock { name, order, terms } => self.alloc_nolock(name, terms.request(order)),
            Op::Bulk { name, count, order, terms } => self.bulk(name, count, terms.request(order)),
            Op::AllocAt { name, pfn, order, gfp } => self.alloc_at(name, pfn, order, gfp),
            Op::AllocRange { name, range, gfp } => {
                let wrong = contradict(gfp).then_some(AllocError::BadFlags);
                self.take(name, range, gfp, wrong, |pages| pages.alloc_range(range, gfp))
            }
            Op::AllocContig { name, frames, align, terms } => self.contig(name, frames, align, terms),
            Op::Free(handle) => self.free(handle),
            Op::FreeNolock(handle) => self.free_nolock(handle),
            Op::FreePart { handle, skip, frames } => self.free_part(handle, skip, frames),
            Op::FreeBlocks { handle, migratetype, ref blocks } => self.free_blocks(handle, migratetype, blocks),
            Op::Split { handle, to } => self.split(handle, to),
            Op::RawFree { place, order } => self.at(place, |pfn| self.raw_free(pfn, order)),
            Op::RawFreeRange { place, frames } => self.at(place, |pfn| self.raw_free_range(pfn, frames)),
            Op::RawSplit { place, from, to } => self.at(place, |pfn| self.raw_split(pfn, from, to)),
            Op::TakeOffline(range) => self.take_offline(range),
            Op::BringOnline(range) => self.bring_online(range),
            Op::AddMemory(range) => self.add_memory(range),
            Op::SetType { pfn, migratetype } => self.set_type(pfn, migratetype),
            Op::Expect(ref row) => match row.observe(self.pages) {
                Some(found) if found == *row => Ok(Outcome::Done),
                Some(found) => Err(format!("found {found}")),
                None => Err("there is no such zone or pageblock".into()),
            },
            Op::Assert(assertion) => match assertion.read(self.pages)? {
                (_, true) => Ok(Outcome::Done),
                (found, false) => Err(format!("found {found}")),
            },
            Op::Validate => self.pages.validate().map(|_| Outcome::Done).map_err(|violation| violation.to_string()),
            ref other => self.control(other),
        };
        match self.hooks.borrow_mut().wrong.take() {
            Some(wrong) => Err(format!("in a callback: {wrong}")),
            None => outcome,
        }
    }

    /// Carries out an operation that concerns no block.
    fn control(&self, op: &Op) -> Result<Outcome, Wrong> {
        match *op {
            Op::DrainAll => return self.drained(None, self.pages.drain_all()),
            Op::DrainCpu(cpu) => return self.drained(Some(cpu), self.pages.drain_cpu(cpu)),
            Op::OfflineCpu(cpu) => return self.drained(Some(cpu), self.pages.offline_cpu(cpu)),
            Op::OnlineCpu(cpu) => self.pages.online_cpu(cpu),
            Op::Refresh(cpu) => return self.refreshed(cpu),
            Op::Balance(node) => return self.balanced(node),
            Op::Compact(node) => return self.compacted(node),
            Op::Count { counter, change } => return self.count(counter, change),
            Op::NumaStat(on) => self.switch_numa_stat(on),
            Op::RunOn(cpu) if cpu.index() >= self.cpus.len() => return Ok(Outcome::Skipped),
            Op::RunOn(cpu) => {
                self.seat.take();
                self.cpu.set(cpu);
                self.pages.machine().run_on(cpu);
            }
            Op::Local(on) => return self.stay(on),
            Op::Trace(on) => self.trace(on),
            Op::Fault { point, hit } => self.faults.borrow_mut().armed.push((point, hit.max(1))),
            Op::OnReclaim(what) => self.hooks.borrow_mut().on_reclaim = what,
            Op::OnMigrate(what) => self.hooks.borrow_mut().on_migrate = what,
            _ => {}
        }
        Ok(Outcome::Done)
    }
}
