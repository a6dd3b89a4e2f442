//! One run over a trace: an allocator is booted for the recorded machine, and the trace is carried out on it.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use framewright::event::Event;
use framewright::machine::Busy;
use framewright::report::{PageTypeInfo, Source};
use framewright::units::{NodeId, ZoneIdx, ZoneKind};
use framewright::{Allocator, Layout, Mechanisms};
use framewright_rt::{Solo, Storage};

use super::first_pass::FirstPass;
use super::frame_map::FrameMap;
use super::observer::{Observer, Pages};
use super::recorded_machine::RecordedMachine;
use super::recording::Recording;
use super::relief::{EarlyReclaim, Relief};
use super::replay_error::ReplayError;
use super::replayer::Replayer;
use super::report::{Column, ZoneBlocks, column};
use super::run_counts::{Extfrag, Run};

/// Replays the whole trace under one set of mechanisms, and reports to `observer`.
pub(crate) fn run<W: Observer>(
    recording: &Recording<'_>,
    (mechanisms, early): (Mechanisms, EarlyReclaim),
    observer: &RefCell<W>,
    progress: &mut dyn FnMut(u64),
) -> Result<Column, ReplayError> {
    let Recording { first_pass, machine, options, .. } = recording;
    let config = framewright::Config { mechanisms, ..machine.config() };
    let layout = layout(&config, first_pass, options.memory_limit)?;
    let mut storage = Storage::new(&layout);
    let extfrag = RefCell::new(Extfrag::default());
    let frame_map = RefCell::new(FrameMap::new(first_pass.span.clone(), machine.pageblock_order));
    // Not dropped, because its machine refers to it; `unhook` drops the callbacks.
    let pages = ManuallyDrop::new(Allocator::boot(Solo::new(&machine.cpus), &config, storage.parts())?);
    let known = &first_pass.reclaimed;
    let relief = Relief::new(&pages, &frame_map, machine, (&first_pass.span, known), early);
    let result = play(recording, Replayer::new(&relief, &frame_map, observer, first_pass), &extfrag, progress);
    pages.machine().unhook();
    result
}

/// Replays the trace on an allocator that was just booted.
fn play<'h, W: Observer>(
    recording: &Recording<'_>,
    mut replayer: Replayer<'h, W>,
    extfrag: &'h RefCell<Extfrag>,
    progress: &mut dyn FnMut(u64),
) -> Result<Column, ReplayError> {
    let Recording { first_pass, machine, .. } = recording;
    let Replayer { pages, frame_map, observer, relief, .. } = replayer;
    replayer.set_up(machine);
    let invalid = |when| move |violation| ReplayError::Invalid { when, violation };
    pages.validate().map_err(invalid("after setting up the recorded state"))?;
    observer.borrow_mut().is_set_up(machine, pages);
    pages.machine().on_event(|event| {
        if let Event::ExtFrag { alloc_order, fallback_order, alloc_migratetype, fallback_migratetype, .. } = *event {
            extfrag.borrow_mut().count(alloc_order, fallback_order, alloc_migratetype, fallback_migratetype);
        }
        observer.borrow_mut().event(event);
    });
    pages.machine().on_migrate(move |from, to, order| {
        frame_map.borrow_mut().relocate(from, to, order);
        relief.gained.borrow_mut().relocate(from, to);
        observer.borrow_mut().moves(from, to, order);
        pages.free(from, order).map_err(|_| Busy)
    });
    if relief.policy != EarlyReclaim::Never {
        pages.machine().on_reclaim(move |need| relief.answer(need));
    }
    let (records, seconds) = replayer.carry_out_all(recording.open()?, progress)?;
    if records != first_pass.quality.records() {
        return Err(ReplayError::Changed {
            file: first_pass.name.clone(),
            first: first_pass.quality.records(),
            then: records,
        });
    }
    let mechanisms = pages.mechanisms();
    let counts = Run { moved: frame_map.borrow().moved, relief: relief.counts.get(), ..replayer.counts };
    pages.validate().map_err(invalid("at the end of the trace"))?;
    pages.drain_all();
    let census = pages.validate().map_err(invalid("at the end, with per-CPU lists drained"))?;
    let types = machine.zones.renumbered(&PageTypeInfo(pages).to_string());
    let extfrag = extfrag.take();
    let run = Run { mechanisms, extfrag, seconds, events: first_pass.linux.requests, ..counts };
    Ok(column(run, machine.pageblock_order, blocks(pages, machine), types, &census))
}

/// The allocator's layout, if it fits into `limit` bytes.
fn layout(config: &framewright::Config<'_>, first_pass: &FirstPass, limit: u64) -> Result<Layout, ReplayError> {
    let layout = Layout::of(config)?;
    let bytes = layout.bytes::<Solo<'_>>() as u64;
    if bytes > limit {
        return Err(first_pass.span.too_large(&first_pass.name, bytes, limit));
    }
    Ok(layout)
}

/// Free blocks of each zone.
fn blocks(pages: &Pages<'_>, machine: &RecordedMachine) -> Vec<ZoneBlocks> {
    let nodes = 0..pages.nodes() as u8;
    let zones = nodes.flat_map(|node| ZoneKind::ALL.map(|kind| ZoneIdx::of(NodeId(node), kind)));
    let snapshots = zones.filter_map(|zone| pages.zone(zone)).filter(|zone| zone.is_populated());
    let orders = pages.geometry().max_order.index() + 1;
    snapshots
        .map(|zone| ZoneBlocks {
            node: machine.zones.linux(zone.node),
            zone: zone.kind.name(),
            free: zone.free_by_order().into_iter().take(orders).collect(),
        })
        .collect()
}
