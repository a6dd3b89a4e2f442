//! Operations on CPUs, memory and pageblocks, while other threads are in the middle of calls.

use framewright::report::Source;
use framewright::{AllocError, CpuId, MigrateType, Order, PfnRange};
use framewright_ops::{rng::Rng, zones};

use crate::frees::Answer;
use crate::kind::Kind;
use crate::plant::Plant;
use crate::thread::{Power, Thread};
use crate::world::World;
use crate::wrong::{Symptom, Wrong};

/// Accesses of others while the allocator is held still.
const STILL: u64 = 500;

impl World {
    /// Returns the numbers of a CPU's records.
    pub(crate) fn records(&self, cpu: u16) -> impl Iterator<Item = CpuId> + use<> {
        let cpus = self.plan.shape.cpus.len() as u16;
        (0..self.plan.contexts as u16).map(move |context| CpuId(context * cpus + cpu))
    }

    pub(crate) fn drain(&self, rng: &mut Rng) -> Answer {
        let zone = |rng: &mut Rng| zones(self.plan.shape.nodes()).nth(rng.below(4) as usize);
        let number = rng.below(self.plan.shape.cpus.len() as u64) as usize;
        let target = &self.engine.threads[number];
        if target.inside.get() && number != self.engine.current.get() {
            self.engine.hit(Kind::CpuDrained);
        }
        let frames = self.pages(|pages| match rng.below(8) {
            0 => pages.drain_all(),
            1 => zone(rng).map_or(0, |zone| pages.drain_depot(zone)),
            2 => zone(rng).map_or(0, |zone| pages.drain_owned(zone)),
            3 => pages.refresh_statistics(CpuId(target.cpu.get())).drained,
            _ => self.records(target.cpu.get()).map(|cpu| pages.drain_cpu(cpu)).sum(),
        });
        Ok(frames)
    }

    /// Takes another CPU offline, whose thread is between two calls. It comes online for its next operation.
    pub(crate) fn cpu(&self, number: usize, rng: &mut Rng) -> Answer {
        if !self.engine.enabled.has(Kind::CpuOffline) {
            return Ok(4);
        }
        let other = rng.below(self.engine.threads.len() as u64) as usize;
        let thread = &self.engine.threads[other];
        if other == number || thread.inside.get() || thread.power.get() != Power::On {
            return Ok(4);
        }
        thread.power.set(Power::Going);
        let cpu = thread.cpu.get();
        if self.engine.others_are_inside() {
            self.engine.hit(Kind::CpuOffline);
        }
        if self.engine.plant != Some(Plant::SkippedDrain) {
            self.pages(|pages| self.records(cpu).map(|cpu| pages.offline_cpu(cpu)).sum::<u64>());
        }
        thread.power.set(Power::Off);
        self.drained.borrow_mut().push(cpu);
        Ok(7)
    }

    /// Brings a thread's CPU online.
    pub(crate) fn come_online(&self, thread: &Thread) {
        let cpu = thread.cpu.get();
        self.drained.borrow_mut().retain(|other| *other != cpu);
        self.pages(|pages| self.records(cpu).for_each(|cpu| pages.online_cpu(cpu)));
        thread.power.set(Power::On);
    }

    /// Checks that no offline CPU has anything in its lists. Context: all threads rest.
    pub(crate) fn check_offline(&self) -> Result<(), Wrong> {
        for &cpu in self.drained.borrow().iter() {
            for record in self.records(cpu) {
                let zones = zones(self.plan.shape.nodes());
                let left: u64 =
                    self.pages(|pages| zones.filter_map(|zone| pages.pcp(zone, record)).map(|lists| lists.count).sum());
                if left != 0 {
                    let text = format!("CPU {}, which is offline, has {left} frames", record.0);
                    return Err(Wrong::new(Symptom::Drain, text));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn hotplug(&self, rng: &mut Rng) -> Answer {
        if self.hotplug.replace(true) {
            return Ok(4);
        }
        let answer = match rng.below(4) {
            0 | 1 => self.take_offline(rng),
            2 => self.bring_online(self.draw_range(rng)),
            _ => self.add_memory(rng),
        };
        self.hotplug.set(false);
        answer
    }

    fn take_offline(&self, rng: &mut Rng) -> Answer {
        let range = self.draw_range(rng);
        let others = self.engine.others_are_inside();
        match self.guarded(|pages| pages.take_offline(range)) {
            Some(Ok(())) => {
                if others {
                    self.engine.hit(Kind::MemoryOffline);
                }
                self.frames.borrow_mut().withhold(range).map(|()| range.start.0)
            }
            Some(Err(_)) => {
                self.engine.hit(Kind::OfflineRefused);
                Ok(2)
            }
            None => Ok(1),
        }
    }

    pub(crate) fn bring_online(&self, range: PfnRange) -> Answer {
        let expected = self.frames.borrow_mut().restore(range);
        let online = self.pages(|pages| pages.bring_online(range));
        if online == expected {
            return Ok(online);
        }
        Err(Wrong::new(Symptom::Census, format!("{online} frames came online, should be {expected}")))
    }

    fn add_memory(&self, rng: &mut Rng) -> Answer {
        if !self.engine.enabled.has(Kind::MemoryAdded) {
            return Ok(4);
        }
        let section = {
            let mut addable = self.addable.borrow_mut();
            let at = rng.below(addable.len() as u64) as usize;
            if at < addable.len() { Some(addable.swap_remove(at)) } else { None }
        };
        let Some(section) = section else { return Ok(4) };
        self.frames.borrow_mut().add(section);
        match self.pages(|pages| pages.add_memory(section)) {
            Ok(frames) if frames == section.frames() => {
                self.engine.hit(Kind::MemoryAdded);
                Ok(frames)
            }
            // Its first pageblock is another zone's.
            Err(AllocError::OtherZone(_)) => {
                self.frames.borrow_mut().remove(section);
                Ok(2)
            }
            answer => {
                let text = format!("adding {section} was answered by {answer:?}");
                Err(Wrong::new(Symptom::Answer, text))
            }
        }
    }

    pub(crate) fn retype(&self, rng: &mut Rng) -> Answer {
        if !self.engine.enabled.has(Kind::Retyped) {
            return Ok(4);
        }
        let types = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
        let (pfn, migratetype) = (self.draw_range(rng).start, *rng.pick(&types));
        let is_done = self.pages(|pages| pages.set_pageblock_type(pfn, migratetype)).is_ok();
        if is_done {
            self.engine.hit(Kind::Retyped);
        }
        Ok(u64::from(is_done))
    }

    /// Runs background work that was woken, or some anyway.
    pub(crate) fn background(&self, rng: &mut Rng) -> Answer {
        let any = framewright::NodeId(rng.below(self.plan.shape.nodes() as u64) as u8);
        let which = rng.below(3);
        match which {
            0 => {
                let node = self.take_woken(0).unwrap_or(any);
                self.guarded(|pages| pages.balance(node));
            }
            1 => {
                let node = self.take_woken(1).unwrap_or(any);
                self.guarded(|pages| pages.compact(node));
            }
            _ => {
                self.guarded(|pages| pages.compact_proactively(any));
                self.pages(|pages| pages.init_section(any));
            }
        }
        Ok(which)
    }

    /// Reports free blocks to a host, or gives the pass up.
    pub(crate) fn report(&self, rng: &mut Rng) -> Answer {
        let least = Order(rng.between(2, 6) as u8).min(self.plan.shape.geometry.max_order);
        let mut met = 0;
        let mut given_up = false;
        self.pages(|pages| {
            for blocks in pages.report_free(least).into_iter().flatten() {
                met += blocks.blocks().len() as u64;
                if self.engine.fires(Kind::ReportDropped) {
                    given_up = true;
                    break;
                }
                blocks.reported();
            }
        });
        Ok(met << 1 | u64::from(given_up))
    }

    /// Holds the allocator still for a while.
    pub(crate) fn freeze(&self, _: &mut Rng) -> Answer {
        let Some(thread) = self.engine.thread().filter(|_| self.engine.enabled.has(Kind::Frozen)) else { return Ok(4) };
        // Nothing of this CPU may call meanwhile.
        thread.interrupt_in.set(u64::MAX);
        thread.with(|context| context.armed = None);
        let others = self.engine.others_are_inside();
        let is_held = self.pages(|pages| {
            let frozen = pages.freeze();
            if frozen.is_some() && others {
                self.engine.hit(Kind::Frozen);
            }
            self.engine.stop(STILL);
            frozen.is_some()
        });
        Ok(u64::from(is_held))
    }
}
