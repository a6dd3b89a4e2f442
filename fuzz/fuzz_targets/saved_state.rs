//! Saved states: no panic and no endless loop, whatever the words of a state with a right check sum are. What is
//! restored can be used.
#![no_main]

use framewright::request::GFP_NOWAIT;
use framewright::{Allocator, Config, Geometry, Layout, NodeId, Order, Pfn, Region, Request, RestoreError};
use framewright_rt::{Solo, Storage};
use libfuzzer_sys::fuzz_target;

const CPUS: [NodeId; 2] = [NodeId(0); 2];
/// Bytes before the words.
const HEAD: usize = 72;

/// CRC-64/XZ, a bit at a time.
fn crc(bytes: &[u8]) -> u64 {
    let step = |crc: u64, _| crc >> 1 ^ if crc & 1 == 1 { 0xc96c_5795_d787_0f42 } else { 0 };
    !bytes.iter().fold(u64::MAX, |crc, &byte| (0..8).fold(crc ^ u64::from(byte), step))
}

// The first two bytes of the input say where the others replace those of a good state.
fuzz_target!(|data: &[u8]| {
    let [low, high, data @ ..] = data else { return };
    let map = [Region::usable(0, 0x100, 0)];
    let geometry = Geometry { page_shift: 12, max_order: Order(5), pageblock_order: Order(4) };
    let config = Config { geometry, dma_end: Pfn(0), dma32_end: Pfn(0), ..Config::new(&map, &CPUS) };
    let layout = Layout::of(&config).unwrap();
    let (mut one, mut other) = (Storage::new(&layout), Storage::new(&layout));
    let pages = Allocator::boot(Solo::new(&CPUS), &config, one.parts()).unwrap();
    let blocks: Vec<_> =
        [0, 1, 0, 4].iter().map_while(|&order| pages.alloc(&Request::new(GFP_NOWAIT, order)).ok()).collect();
    pages.free(blocks[2], Order(0)).unwrap();
    let mut state = Vec::new();
    pages.save(&mut |bytes| Ok::<_, ()>(state.extend_from_slice(bytes))).unwrap();
    state.truncate(state.len() - 8);
    let at = HEAD + usize::from(u16::from_le_bytes([*low, *high])) % (state.len() - HEAD);
    let end = state.len().min(at + data.len());
    state[at..end].copy_from_slice(&data[..end - at]);
    state.extend(crc(&state).to_le_bytes());
    let pages = Allocator::boot(Solo::new(&CPUS), &config, other.parts()).unwrap();
    let restored = pages.restore(&state);
    assert!(!matches!(restored, Err(RestoreError::NoState | RestoreError::Version(_) | RestoreError::Used)));
    // An unsound state was written, and its allocator must not be used.
    if restored.is_err() {
        return;
    }
    let _ = pages.alloc(&Request::page(GFP_NOWAIT)).map(|pfn| pages.free(pfn, Order(0)));
    let _ =
        (blocks.into_iter().map(|pfn| pages.free(pfn, Order(0)).is_ok()).count(), pages.drain_all(), pages.validate());
});
