//! Plays operations on one allocator from many CPUs, and checks each answer.

use std::cell::Cell;

use framewright::{Order, Pfn, PfnRange, Request};
use framewright_ops::{Handle, Op, Shape};

use super::player::{Player, Seat};
use super::wrong::{Kind, Wrong};
use crate::engine::here;
use crate::engine::store_buffer::publish;

impl<'p> Player<'p> {
    /// Plays the list of one CPU; stops when any CPU has found something wrong.
    pub(crate) fn play(&self, cpu: usize, ops: &[Op]) {
        // Declared here, so that it is dropped with the CPU however that ends.
        let (mut stays, mut seat) = (false, None);
        for op in ops {
            if self.is_wrong() {
                break;
            }
            let mail = self.mailboxes[cpu].borrow_mut().pop();
            for op in mail.map(Op::Free).iter().chain([op]) {
                stays = if let Op::Local(on) = *op { on } else { stays };
                // Other calls may wait or take long, so the CPU is not pinned across them.
                let is_short = matches!(op, Op::Alloc { .. } | Op::Free(_) | Op::RawFree { .. });
                seat = if stays && is_short { seat.or_else(|| self.pages.local()) } else { None };
                self.turn((cpu, &seat), op);
            }
            if let Some(name) = op.defines() {
                self.tell(name);
            }
        }
        drop(seat);
        publish(cpu);
        self.resting[cpu].set(true);
    }

    fn turn(&self, (cpu, seat): (usize, &Seat<'p>), op: &Op) {
        match self.perform((cpu, seat), op) {
            Ok(true) => self.count(|counts| {
                counts.done += 1;
                counts.local += u64::from(seat.is_some());
            }),
            Ok(false) => self.count(|counts| counts.skipped += 1),
            Err(Wrong { kind, text }) => {
                self.found(Wrong { kind, text: format!("CPU {cpu}, `{op}`: {text}") });
            }
        }
    }

    /// Tells the CPU that was to free this handle before it had blocks.
    fn tell(&self, name: Handle) {
        let awaited = self.awaited.borrow_mut().remove(&name);
        if let Some(cpu) = awaited
            && self.shadow.borrow().has(name)
        {
            self.mailboxes[cpu].borrow_mut().push(name);
        }
    }

    /// Carries an operation out; returns false if there was nothing to do.
    fn perform(&self, (cpu, seat): (usize, &Seat<'p>), op: &Op) -> Result<bool, Wrong> {
        if op.defines().is_some_and(|handle| self.shadow.borrow().has(handle)) {
            return Ok(false);
        }
        match *op {
            Op::Alloc { name, order, terms } => self.alloc(cpu, seat, name, &terms.request(order))?,
            Op::AllocNolock { name, order, terms } => match self.pages.alloc_nolock(&terms.request(order)) {
                Ok(pfn) => self.shadow.borrow_mut().hold(cpu, name, (pfn, order))?,
                Err(_) => self.count(|counts| counts.unserved += 1),
            },
            Op::Bulk { name, count, order, terms } => self.bulk((cpu, name), count, &terms.request(order))?,
            Op::AllocAt { name, pfn, order, gfp } => {
                let range = PfnRange::block(pfn, order);
                return self.range(cpu, name, self.pages.alloc_at(pfn, order, gfp).ok().map(|_| range));
            }
            Op::AllocRange { name, range, gfp } => {
                return self.range(cpu, name, self.pages.alloc_range(range, gfp).ok().map(|()| range));
            }
            Op::AllocContig { name, frames, align, terms } => {
                let request = terms.request(Order(0));
                return self.range(cpu, name, self.pages.alloc_contig(frames, align, &request).ok());
            }
            Op::Free(handle) => return self.free((cpu, seat), handle),
            Op::FreeNolock(handle) => {
                let Some(blocks) = self.take_or_await(cpu, handle) else { return Ok(false) };
                blocks.into_iter().try_for_each(|block| self.free_nolock(cpu, block))?;
            }
            Op::FreePart { handle, skip, frames } => return self.free_part(cpu, handle, skip, frames),
            Op::Split { handle, to } => return self.split(cpu, handle, to),
            Op::RawFree { place, order } => return self.free_wrongly((cpu, seat), place, order),
            Op::TakeOffline(range) => return self.alone(|| self.take_offline(range)),
            Op::BringOnline(range) => return self.alone(|| self.bring_online(range)),
            _ => return Ok(self.control(op)),
        }
        Ok(true)
    }

    /// Carries out an operation that concerns no block.
    fn control(&self, op: &Op) -> bool {
        match *op {
            Op::DrainAll => self.pages.drain_all(),
            Op::DrainCpu(other) => self.pages.drain_cpu(other),
            Op::OfflineCpu(other) if self.resting.get(other.index()).is_some_and(Cell::get) => {
                self.pages.offline_cpu(other)
            }
            Op::Refresh(other) => self.pages.refresh_statistics(other).drained,
            Op::SetType { pfn, migratetype } => return self.pages.set_pageblock_type(pfn, migratetype).is_ok(),
            _ => return false,
        };
        self.count(|counts| counts.drains += 1);
        true
    }

    fn alloc(&self, cpu: usize, seat: &Seat<'p>, name: Handle, request: &Request) -> Result<(), Wrong> {
        let asked = (request.order.frames(), request);
        if let Some(pool) = &self.pool {
            pool.borrow_mut().ask(cpu, asked.0);
        }
        let result = seat.as_ref().map_or_else(|| self.pages.alloc(request), |local| local.alloc(request));
        if let Some(pool) = &self.pool {
            pool.borrow_mut().answer(cpu, asked, result.as_ref().ok().map_or(&[], std::slice::from_ref))?;
        }
        match result {
            Ok(pfn) => self.shadow.borrow_mut().hold(cpu, name, (pfn, request.order))?,
            Err(_) => self.count(|counts| counts.unserved += 1),
        }
        Ok(())
    }

    fn bulk(&self, (cpu, name): (usize, Handle), count: u32, request: &Request) -> Result<(), Wrong> {
        let mut blocks = vec![Pfn(u64::MAX); count as usize];
        let served = self.pages.alloc_bulk(request, &mut blocks).unwrap_or(0);
        if served < blocks.len() {
            self.count(|counts| counts.unserved += 1);
        }
        let mut shadow = self.shadow.borrow_mut();
        blocks.iter().take(served).try_for_each(|&pfn| shadow.hold(cpu, name, (pfn, request.order)))
    }

    fn range(&self, cpu: usize, name: Handle, range: Option<PfnRange>) -> Result<bool, Wrong> {
        match range {
            None => self.count(|counts| counts.unserved += 1),
            Some(range) => {
                self.count(|counts| counts.ranges += 1);
                self.shadow.borrow_mut().hold_range(cpu, name, range)?;
            }
        }
        Ok(true)
    }

    fn alone(&self, work: impl FnOnce() -> Result<bool, Wrong>) -> Result<bool, Wrong> {
        if self.hotplug.replace(true) {
            return Ok(false);
        }
        let result = work();
        publish(here::cpu());
        self.hotplug.set(false);
        result
    }

    fn take_offline(&self, range: PfnRange) -> Result<bool, Wrong> {
        if self.pages.take_offline(range).is_err() {
            self.count(|counts| counts.unserved += 1);
            return Ok(true);
        }
        self.count(|counts| counts.ranges += 1);
        let wrong = self.shadow.borrow_mut().withhold(range);
        wrong.map_or(Ok(true), Err)
    }

    fn bring_online(&self, range: PfnRange) -> Result<bool, Wrong> {
        let expected = self.shadow.borrow_mut().restore(range);
        let online = self.pages.bring_online(range);
        if online == expected {
            return Ok(expected != 0);
        }
        let text = format!("{online} frames came online, should be {expected}");
        Err(Wrong { kind: Kind::Census, text })
    }

    /// Brings all memory online again.
    pub(crate) fn restore(&self, shape: &Shape) -> Result<(), Wrong> {
        let end = shape.regions.last().map_or(Pfn(0), |region| region.range.end);
        self.bring_online(PfnRange { start: Pfn(0), end }).map(drop)
    }
}
