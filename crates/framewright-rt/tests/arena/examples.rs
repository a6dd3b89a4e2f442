//! The examples run, and print the expected lines.

#[path = "../../examples/buffer_pool.rs"]
#[expect(dead_code, reason = "an example's main is not called here")]
mod buffer_pool;

#[path = "../../examples/cache.rs"]
#[expect(dead_code, reason = "an example's main is not called here")]
mod cache;

/// The lines below a title, up to an empty one.
fn section<'t>(text: &'t str, title: &str) -> Vec<&'t str> {
    text.lines().skip_while(|line| *line != title).skip(1).take_while(|line| !line.is_empty()).collect()
}

/// Free frames in a line of buddyinfo.
fn free(line: &str) -> u64 {
    let counts = line.split_whitespace().skip(4).map(|count| count.parse::<u64>().unwrap());
    counts.enumerate().map(|(order, blocks)| blocks << order).sum()
}

#[test]
fn the_buffer_pool_is_as_before_when_it_is_drained() {
    let mut out = Vec::new();
    buffer_pool::run(None, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let [before, peak, after] = ["before", "at the peak", "after"].map(|title| section(&text, title));
    assert_eq!(before.len(), 2, "{text}");
    assert_eq!(before, after, "{text}");
    for (before, peak) in before.iter().zip(&peak) {
        assert_eq!(free(before), 16_384);
        // 24 extents and 3,000 pages, and the CPUs' lists.
        assert!(free(peak) <= 16_384 - 24 * 512 - 3_000, "{text}");
    }

    assert!(text.ends_with("given back to the system: 128 MiB in 2 blocks\n"), "{text}");
}

#[test]
fn the_cache_makes_room_and_goes_with_its_arena() {
    let mut out = Vec::new();
    cache::run(&mut out).unwrap();
    let lines = [
        "32768 pages loaded, more than there are: 0 failed\n",
        "2 blocks of 2 MiB, 0 pages still cached\n",
        "the arena is gone: true\n",
    ];
    assert_eq!(String::from_utf8(out).unwrap(), lines.concat());
}
