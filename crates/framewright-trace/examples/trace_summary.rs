//! Prints the contents of a trace: its events, its quality, and the frames that were allocated by order.
//!
//! `cargo run -p framewright-trace --example trace_summary [TRACE]`. Without a path it reads the trace in `data/traces/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use framewright_trace::Trace;
use framewright_trace::error::TraceError;
use framewright_trace::record::Kind;

fn main() -> Result<(), TraceError> {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/traces/linux-6.1-thpfioscale-1g.fwt");
    let path = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(shipped), PathBuf::from);
    let mut trace = Trace::open(&path)?;
    let zones = trace.initial().zoneinfo.as_ref().map_or(0, |zoneinfo| zoneinfo.zones.len());
    let mut frames: BTreeMap<u8, u64> = BTreeMap::new();
    for record in trace.by_ref() {
        if let Kind::Alloc { pfn: Some(_), order, .. } = record?.kind {
            *frames.entry(order.0).or_default() += order.frames();
        }
    }
    println!("{zones} zones before the first event\n{}", trace.quality());
    frames.iter().for_each(|(order, frames)| println!("order {order}: {frames} frames allocated"));
    Ok(())
}
