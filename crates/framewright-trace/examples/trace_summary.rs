//! Prints the contents of a trace: its events, its quality, and the frames that were allocated by order.
//!
//! `cargo run -p framewright-trace --example trace_summary TRACE`, where `TRACE` is a `*.fwt`, a text or a directory.

use std::collections::BTreeMap;
use std::error::Error;

use framewright_trace::Trace;
use framewright_trace::record::Kind;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("which trace? data/traces/ of the project has one")?;
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
