//! Ledgers that were changed: an error that names the place, or an arena that is sound. Never a panic.

use std::alloc::Layout;
use std::fs::File;
use std::os::unix::fs::FileExt;

use framewright::request::GFP_USER;
use framewright::{Order, PfnRange};
use framewright_ops::rng::Rng;
use framewright_rt::{Arena, Backing, LedgerFault, RecoverError, Recovered, Request};

const BYTES: u64 = 4 << 20;
const JOURNAL: u64 = 64 * 4096;
const TABLE: u64 = BYTES + JOURNAL;
/// Bytes that the tests change: the journal's first lines, the table, the header.
const PARTS: [(u64, u64); 3] = [(BYTES, 1024), (TABLE, 4096), (BYTES + (320 << 10) - 4096, 128)];
const CASES: u64 = 3_000;
const HEADERS: u64 = 200;

/// A file with blocks, ranges and free memory, its ledger as it was, and its held blocks.
struct Sample {
    file: File,
    ledger: Vec<u8>,
    held: Vec<PfnRange>,
}

impl Sample {
    fn new() -> Sample {
        let builder = Arena::builder().without_background().recoverable(true).backing(Backing::Memfd);
        let arena = builder.size(BYTES).build().unwrap();
        for order in [0, 4, 0, 2, 7, 0] {
            std::mem::forget(arena.alloc(&Request::new(GFP_USER, order)).unwrap());
            drop(arena.alloc(&Request::page(GFP_USER)).unwrap());
        }
        for pages in [3, 13, 1] {
            let layout = Layout::from_size_align(pages << 12, 1).unwrap();
            std::mem::forget(arena.alloc_range(&Request::page(GFP_USER), layout).unwrap());
        }
        // SAFETY: its writer changes the ledger, and no block.
        let file = File::from(unsafe { arena.memfd() }.unwrap().try_clone_to_owned().unwrap());
        drop(arena);
        let mut ledger = vec![0; (file.metadata().unwrap().len() - BYTES) as usize];
        file.read_exact_at(&mut ledger, BYTES).unwrap();
        let Recovered { held, .. } = crate::blocks::recover(&file);
        let mut sample = Sample { file, ledger, held: held.iter().map(|held| held.frames()).collect() };
        sample.restore();
        sample
    }

    fn restore(&mut self) {
        self.file.write_all_at(&self.ledger, BYTES).unwrap();
    }

    /// Changes bytes of the file, and recovers.
    fn with(&mut self, changes: &[(u64, &[u8])]) -> Result<Recovered, RecoverError> {
        self.restore();
        for (offset, bytes) in changes {
            self.file.write_all_at(bytes, *offset).unwrap();
        }
        loop {
            match Arena::builder().without_background().recover(&self.file) {
                // The child of another test, between fork and exec.
                Err(RecoverError::InUse) => std::thread::yield_now(),
                recovered => return recovered,
            }
        }
    }
}

/// Whatever was recovered can be used: it does not overlap, and all of it can be freed.
fn check(Recovered { arena, held }: Recovered) {
    assert!(held.windows(2).all(|two| two[0].frames().end <= two[1].frames().start));
    let frames: u64 = held.iter().map(|held| held.frames().frames()).sum();
    assert_eq!(arena.validate().unwrap().allocated, frames);
    held.into_iter().for_each(|held| drop(held.into_range(&arena).unwrap()));
    arena.drain();
    assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
}

#[test]
fn changed_bytes_are_an_error_or_a_sound_arena() {
    let mut sample = Sample::new();
    let mut rng = Rng::new(0x9e37_79b9_7f4a_7c15);
    let mut random = move |below: u64| rng.below(below);
    let (mut refused, mut sound) = (0, 0);
    for case in 0..CASES {
        let number = 1 + random(4);
        let changes: Vec<(u64, Vec<u8>)> = (0..number)
            .map(|_| {
                // Mostly the table, a part of which is in use, and sometimes the header.
                let (start, len) = PARTS[[0, 1, 1, 1, 0, 1, 1, 2][random(8) as usize]];
                let part = if random(2) == 0 { len } else { 512.min(len) };
                let offset = start + random(part);
                let bytes = if random(2) == 0 {
                    vec![random(256) as u8]
                } else {
                    (random(16) as u32 | (0x40 * random(4)) as u32).to_le_bytes().to_vec()
                };
                (if bytes.len() == 4 { offset & !3 } else { offset }, bytes)
            })
            .collect();
        let borrowed: Vec<(u64, &[u8])> = changes.iter().map(|(offset, bytes)| (*offset, bytes.as_slice())).collect();
        match sample.with(&borrowed) {
            Ok(recovered) => {
                sound += 1;
                check(recovered);
            }
            Err(RecoverError::Ledger(_)) => refused += 1,
            Err(error) => panic!("case {case}, {changes:?}: {error}"),
        }
    }
    println!("{CASES} changed ledgers: {refused} refused, {sound} recovered");
    assert!(refused > CASES / 10 && sound > CASES / 30, "{refused} refused, {sound} recovered");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let mut sample = Sample::new();
    let at = |index: u64| TABLE + 4 * index;
    let big = sample.held.iter().find(|held| held.frames() == 128).unwrap().start.0;
    let free = 1023;
    for (index, value, what) in [
        (big, 0x40_u32, "has no order of this arena"),
        (big, 12, "has no order of this arena"),
        (big, 9 | (2 * 4096 + 1) << 8, "names a slot that does not exist"),
        (big, 9 | 0x40 | 1 << 8, "is a piece with facts of a block"),
        (free, 2, "is misaligned"),
        (big + 64, 1, "overlaps the block before it"),
        (big + 64, 0x41, "overlaps the block before it"),
    ] {
        let found = sample.with(&[(at(index), &value.to_le_bytes())]).map(drop);
        let fault = LedgerFault::Entry { offset: at(index), value, pfn: index, what };
        assert_eq!(found, Err(RecoverError::Ledger(fault)), "{value:#x}");
    }
    let word = |line: u64, word: u64| BYTES + 64 * line + 8 * word;
    for (value, what) in [
        (1024_u64 << 12 | 1, "names a frame that the arena does not have"),
        (4, "has bits that mean nothing"),
        (1 << 2 | 2, "splits a block that is not held"),
        (2 | 1 << 7, "splits a block into no smaller ones"),
        (1 << 12 | 1 << 2 | 2, "splits a block that is not the arena's"),
    ] {
        // The first frame is free in this file, and no thread has the line.
        let empty = [(at(0), &[0_u8; 4][..]), (word(4000, 0), &value.to_le_bytes())];
        let fault = LedgerFault::Word { offset: word(4000, 0), value, what };
        assert_eq!(sample.with(&empty).map(drop), Err(RecoverError::Ledger(fault)), "{value:#x}");
    }
    let no_old = [(word(4000, 0), &(5_u64 << 12 | 3).to_le_bytes()[..]), (word(4000, 1), &9999_u64.to_le_bytes()[..])];
    let fault = LedgerFault::Word { offset: word(4000, 1), value: 9999, what: "names no old place of a move" };
    assert_eq!(sample.with(&no_old).map(drop), Err(RecoverError::Ledger(fault)));
    // Unchanged, it is as it was: no refused recovery has touched the file.
    let recovered = sample.with(&[]).unwrap();
    assert_eq!(recovered.held.iter().map(|held| held.frames()).collect::<Vec<_>>(), sample.held);
    check(recovered);
}

/// Headers that describe any other arena, with a right check sum, in files as long as they say.
#[test]
fn headers_of_other_arenas_are_an_error_or_a_sound_arena() {
    let sample = Sample::new();
    let header = sample.ledger[sample.ledger.len() - 4096..].to_vec();
    let values =
        [0, 1, 2, 9, 64, 512, 4096, 1 << 16, 1 << 21, BYTES, 1 << 30, 1 << 40, 1 << 52, 1 << 62, u64::MAX - 4095];
    let mut rng = Rng::new(0x1234_5678_9abc_def1);
    let mut random = move |below: u64| rng.below(below);
    let (mut refused, mut sound) = (0, 0);
    for case in 0..HEADERS {
        let mut bytes = header.clone();
        for _ in 0..1 + random(3) {
            match random(8) {
                0 => bytes[12] = random(40) as u8,
                1 => bytes[13] = random(20) as u8,
                // From the first frame's number to the sizes of three nodes.
                _ => {
                    let at = [16, 24, 32, 40, 64, 72, 80][random(7) as usize];
                    bytes[at..at + 8].copy_from_slice(&values[random(values.len() as u64) as usize].to_le_bytes());
                }
            }
        }
        let sum = crc32fast::hash(&[&bytes[..56], &bytes[60..]].concat());
        bytes[56..60].copy_from_slice(&sum.to_le_bytes());
        let file = File::from(rustix::fs::memfd_create("header", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(&bytes, 0).unwrap();
        let mut found = Arena::builder().without_background().recover(&file).map(drop);
        if let Err(RecoverError::Ledger(LedgerFault::Length { expected, .. })) = found
            && file.set_len(0).and_then(|()| file.write_all_at(&bytes, expected - 4096)).is_ok()
        {
            found = Arena::builder().without_background().recover(&file).map(check);
        }
        match found {
            Ok(()) => sound += 1,
            Err(RecoverError::InUse) => {}
            Err(RecoverError::Os(error)) => panic!("case {case}: {error}"),
            Err(_) => refused += 1,
        }
    }
    println!("{HEADERS} headers: {refused} refused, {sound} recovered");
    assert!(refused > HEADERS / 10 && sound > HEADERS / 10, "{refused} refused, {sound} recovered");
}

/// What a kill leaves in the middle of a split or a move is finished, also by a second recovery.
#[test]
fn what_was_under_way_is_finished() {
    let mut sample = Sample::new();
    let block = *sample.held.iter().find(|held| held.frames() == 128).unwrap();
    let (start, free) = (
        block.start.0,
        (0..1024).rev().find(|&pfn| !sample.held.iter().any(|held| held.contains(framewright::Pfn(pfn)))).unwrap(),
    );
    let at = |index: u64| TABLE + 4 * index;
    let line = BYTES + 64 * 4000;
    // Of four pieces of order 5 the last two are written.
    let split = (start << 12 | 5 << 7 | 7 << 2 | 2).to_le_bytes();
    let piece = 6_u32.to_le_bytes();
    let changes = [(line, &split[..]), (at(start + 96), &piece[..]), (at(start + 64), &piece[..])];
    let whole: Vec<_> = sample.held.iter().copied().filter(|held| *held != block).collect();
    let mut expected = whole.clone();
    expected.extend((0..4).map(|n| PfnRange::block(block.start.add(32 * n), Order(5))));
    expected.sort_by_key(|held| held.start);
    let recovered = sample.with(&changes).unwrap();
    assert_eq!(recovered.held.iter().map(|held| held.frames()).collect::<Vec<_>>(), expected);
    check(recovered);
    // A page was copied to a free frame, and both are entered.
    let page = sample.held.iter().find(|held| held.frames() == 1).unwrap().start.0;
    let (to, entry) = (free << 12 | 3, 1_u32 | (2 * 4000 + 1) << 8);
    let moved = [(line, to.to_le_bytes()), (line + 8, page.to_le_bytes())];
    let changes = [(moved[0].0, &moved[0].1[..]), (moved[1].0, &moved[1].1[..]), (at(free), &entry.to_le_bytes()[..])];
    let mut expected: Vec<_> = sample.held.iter().copied().filter(|held| held.start.0 != page).collect();
    expected.push(PfnRange::new(free, free + 1));
    expected.sort_by_key(|held| held.start);
    for change in [&changes[..], &changes[..2]] {
        let recovered = sample.with(change).unwrap();
        let found: Vec<_> = recovered.held.iter().map(|held| held.frames()).collect();
        // Before the new entry is there, the page has not moved.
        assert_eq!(found, if change.len() == 3 { expected.clone() } else { sample.held.clone() });
        check(recovered);
    }
    // Pieces of a range without its first block belong to a call that had not returned.
    let recovered = sample.with(&[(at(free), &0x41_u32.to_le_bytes())]).unwrap();
    assert_eq!(recovered.held.len(), sample.held.len());
    check(recovered);
}

#[test]
fn a_file_of_another_length_is_refused() {
    let sample = Sample::new();
    let bytes = BYTES as usize + sample.ledger.len();
    let mut whole = vec![0; bytes];
    sample.file.read_exact_at(&mut whole, 0).unwrap();
    for len in [0, 1, 4095, 4096, BYTES as usize, bytes - 4096, bytes - 1, bytes + 4096] {
        let file = tempfile::tempfile().unwrap();
        let mut content = whole.clone();
        content.resize(len, 0);
        file.write_all_at(&content, 0).unwrap();
        let error = Arena::recover(&file).map(drop).unwrap_err();
        assert!(matches!(error, RecoverError::Ledger(_)), "{len}: {error}");
        assert_eq!(file.metadata().unwrap().len(), len as u64);
    }
    // The header at the end of a longer file.
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&whole, 4096).unwrap();
    let expected = LedgerFault::Length { bytes: bytes as u64 + 4096, expected: bytes as u64 };
    assert_eq!(Arena::recover(&file).map(drop), Err(RecoverError::Ledger(expected)));
}
