//! Ledgers of arenas: no panic and no endless loop, whatever journal, table and header hold. What is recovered can be
//! used and freed.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use framewright::request::GFP_USER;
use framewright_rt::{Arena, Backing, RecoverError, Request};
use libfuzzer_sys::fuzz_target;

const BYTES: u64 = 1 << 20;
const JOURNAL: u64 = 64 * 4096;
const HEADER: usize = 4096;

/// The file of an arena with blocks, and its ledger as the arena left it.
fn sample() -> &'static (File, Vec<u8>) {
    static SAMPLE: OnceLock<(File, Vec<u8>)> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let arena = Arena::builder().without_background().recoverable(true).backing(Backing::Memfd);
        let arena = arena.size(BYTES).build().unwrap();
        for order in [0, 4, 1, 0] {
            std::mem::forget(arena.alloc(&Request::new(GFP_USER, order)).unwrap());
        }
        // SAFETY: its writer changes the ledger, and no block.
        let file = File::from(unsafe { arena.memfd() }.unwrap().try_clone_to_owned().unwrap());
        drop(arena);
        let mut ledger = vec![0; (file.metadata().unwrap().len() - BYTES) as usize];
        file.read_exact_at(&mut ledger, BYTES).unwrap();
        (file, ledger)
    })
}

// Each change is a place of two bytes and four bytes: in the journal's first lines, the table, or the header, whose check
// sum is then right.
fuzz_target!(|data: &[u8]| {
    let (file, good) = sample();
    let mut ledger = good.clone();
    let header = ledger.len() - HEADER;
    for change in data.as_chunks::<6>().0 {
        let [low, high, bytes @ ..] = *change;
        let (part, at) = (high >> 6, usize::from(u16::from_le_bytes([low, high & 0x3f])) & !3);
        let at = match part {
            0 => at % 1024,
            1 | 2 => JOURNAL as usize + at % 1024,
            _ => header + at % 128,
        };
        ledger[at..at + 4].copy_from_slice(&bytes);
    }
    let parts = [&ledger[header..header + 56], &ledger[header + 60..]].concat();
    ledger[header + 56..header + 60].copy_from_slice(&crc32fast::hash(&parts).to_le_bytes());
    file.write_all_at(&ledger, BYTES).unwrap();
    match Arena::builder().without_background().recover(file) {
        Ok(recovered) => {
            let arena = recovered.arena;
            assert!(recovered.held.windows(2).all(|two| two[0].frames().end <= two[1].frames().start));
            recovered.held.into_iter().for_each(|held| drop(held.into_range(&arena).unwrap()));
            assert_eq!(arena.validate().unwrap().allocated, 0);
        }
        Err(RecoverError::InUse | RecoverError::Os(_)) => panic!("nothing but the ledger was changed"),
        Err(_) => {}
    }
});
