//! Everything once, briefly: for tests of contenders.

use framewright::Mechanisms;

use crate::entry::Entry;
use crate::measure::{Plan, measure};
use crate::row::threads_text;
use crate::workload::Shape;

/// Frames for a short run: 512 MiB, enough for two threads that each hold the largest batch.
const FRAMES: usize = 1 << 17;

/// Larger batches take the system seconds, and show nothing that this one does not.
const LARGEST_BATCH: usize = 1024;

/// Runs each contender through each workload that it suits, on one thread and on `threads`, with next to no work;
/// returns the failures: a frame handed out twice, memory that ran out, a free that was refused, a row that is missing
/// or has no time. Contenders that this machine does not have are left out. The times mean nothing.
pub fn smoke(entries: &[Entry], threads: usize) -> Vec<String> {
    let entries: Vec<Entry> = entries.iter().copied().filter(|entry| (entry.available)().is_ok()).collect();
    let plan = Plan {
        shapes: Shape::all().into_iter().filter(|shape| brief(*shape)).collect(),
        entries: entries.clone(),
        threads: vec![1, threads],
        rounds: 2,
        cell_ns: 1e4,
        seed: 1,
        mechanisms: Mechanisms::DEFAULT,
        frames: FRAMES,
    };
    let results = measure(&plan, &mut |_| ());
    let mut wrong: Vec<String> = results.failures.iter().map(ToString::to_string).collect();
    wrong.extend(results.notes.clone());
    for shape in &plan.shapes {
        for threads in shape.threads(&plan.threads) {
            for entry in entries.iter().filter(|entry| (entry.suits)(*shape)) {
                let row = results.rows.iter().find(|row| {
                    row.allocator == entry.name && row.workload == shape.to_string() && row.threads == threads
                });
                let sound = row.is_some_and(|row| {
                    let limited = entries.iter().any(|entry| entry.name == row.limit);
                    let ordered = 0.0 < row.min && row.min <= row.ns_per_page && row.ns_per_page <= row.max;
                    ordered && row.ratio_to_limit.is_some() == limited
                });
                if !sound {
                    wrong.push(format!("{} at {shape} on {}: {row:?}", entry.name, threads_text(threads)));
                }
            }
        }
    }
    wrong
}

fn brief(shape: Shape) -> bool {
    !matches!(shape, Shape::Batch { pages, .. } if pages > LARGEST_BATCH)
}
