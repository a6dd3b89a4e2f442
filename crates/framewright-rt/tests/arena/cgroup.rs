//! Limits of cgroups: how they are found in trees of files, and what an arena does near one.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use framewright::request::GFP_USER;
use framewright::{AllocError, NodeId, Request};
use framewright_rt::cgroup::{Cgroup, MemoryUsage};
use framewright_rt::{Arena, ArenaError, Backing, Cause, Scan, Shrink};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const HUGE: Request = Request::new(GFP_USER, 9);
const V2: &str = "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

/// Files, each with its text.
type Files = &'static [(&'static str, &'static str)];

/// A tree of files, each with its text.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    files.iter().for_each(|&(file, text)| write(root.path(), file, text));
    root
}

fn write(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn look(files: &[(&str, &str)]) -> Result<Option<MemoryUsage>, String> {
    let root = tree(files);
    let start = root.path().display().to_string();
    Cgroup::in_tree(root.path()).look().map_err(|error| error.to_string().replace(&start, ""))
}

#[test]
fn the_level_with_least_left_counts() {
    let found = look(&[
        ("proc/self/cgroup", "0::/a/b\n"),
        ("proc/self/mountinfo", V2),
        ("sys/fs/cgroup/a/b/memory.current", "5000\n"),
        ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ("sys/fs/cgroup/a/b/memory.high", "9000\n"),
        ("sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 2\nmax 0\n"),
        ("sys/fs/cgroup/a/memory.current", "7000\n"),
        ("sys/fs/cgroup/a/memory.max", "8000\n"),
        ("sys/fs/cgroup/a/memory.high", "max\n"),
        ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 500\n"),
        ("sys/fs/cgroup/a/memory.events", "low 0\nhigh 1\nmax 4\n"),
        ("sys/fs/cgroup/cgroup.procs", ""),
    ]);
    assert_eq!(found, Ok(Some(MemoryUsage { limit: Some(8000), used: 6500, events: 7 })));
    assert_eq!(found.unwrap().unwrap().headroom(), Some(1500));
}

#[test]
fn trees_of_many_shapes() {
    let usage = |limit, used, events| Ok(Some(MemoryUsage { limit, used, events }));
    let cases: [(Files, Result<Option<MemoryUsage>, String>); 7] = [
        (&[], Ok(None)),
        (&[("proc/self/cgroup", "0::/\n")], Ok(None)),
        (&[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", "22 1 0:1 / / rw - ext4 x rw\n")], Ok(None)),
        // The root has no files of memory.
        (&[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", V2)], Ok(None)),
        (
            &[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", V2), ("sys/fs/cgroup/memory.current", "7\n")],
            usage(None, 7, 0),
        ),
        // Both versions: the controller is in version 1.
        (
            &[
                ("proc/self/cgroup", "4:memory:/x\n0::/y\n"),
                (
                    "proc/self/mountinfo",
                    concat!(
                        "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                    ),
                ),
                ("sys/fs/cgroup/y/memory.current", "1\n"),
                ("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "300\n"),
                ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "400\n"),
                ("sys/fs/cgroup/memory/x/memory.failcnt", "9\n"),
                ("sys/fs/cgroup/memory/x/memory.stat", "inactive_file 200\ntotal_inactive_file 100\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "900\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
            usage(Some(400), 200, 9),
        ),
        // In a container the cgroup itself is mounted, and the path is the host's.
        (
            &[
                ("proc/self/cgroup", "4:memory:/docker/abc\n"),
                ("proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "3\n"),
            ],
            usage(None, 3, 0),
        ),
    ];
    for (files, expected) in cases {
        assert_eq!(look(files), expected, "{files:?}");
    }
}

#[test]
fn trees_with_odd_numbers_and_paths() {
    let usage = |limit, used, events| Ok(Some(MemoryUsage { limit, used, events }));
    let cases: [(Files, Result<Option<MemoryUsage>, String>); 2] = [
        // A path that leads out of what is mounted.
        (
            &[
                ("proc/self/cgroup", "0::/../../etc\n"),
                ("proc/self/mountinfo", V2),
                ("sys/fs/cgroup/memory.current", "4\n"),
                ("sys/fs/cgroup/memory.max", "5\n"),
            ],
            usage(Some(5), 4, 0),
        ),
        // More in use than the limit.
        (
            &[
                ("proc/self/cgroup", "4:memory:/\n"),
                ("proc/self/mountinfo", V1),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "18446744073709551615\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "0\n"),
            ],
            usage(Some(0), u64::MAX, 0),
        ),
    ];
    for (files, expected) in cases {
        assert_eq!(look(files), expected, "{files:?}");
    }
}

#[test]
fn files_of_another_form_are_named() {
    let cases: [(Files, &str); 4] = [
        (&[("proc/self/cgroup", "nonsense\n")], "/proc/self/cgroup:1: expected number:controllers:path"),
        (
            &[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", "1 2 3\n")],
            "/proc/self/mountinfo:1: expected a mount, its optional fields, `-` and its type",
        ),
        (
            &[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", V2), ("sys/fs/cgroup/memory.current", "x\n")],
            "/sys/fs/cgroup/memory.current:1: expected a number",
        ),
        (
            &[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", V2),
                ("sys/fs/cgroup/memory.current", "1\n"),
                ("sys/fs/cgroup/memory.events", "low 0\nmax many\n"),
            ],
            "/sys/fs/cgroup/memory.events:2: expected a key and a number",
        ),
    ];
    for (files, expected) in cases {
        assert_eq!(look(files), Err(expected.to_string()), "{files:?}");
    }
    let unreadable = tree(&[("proc/self/cgroup/directory", "")]);
    let error = Cgroup::in_tree(unreadable.path()).look().unwrap_err();
    assert!(error.line == 0 && error.file.ends_with("proc/self/cgroup"), "{error}");
}

#[test]
fn this_process_can_look() {
    println!("{:?}", Cgroup::of_process().look().unwrap());
}

/// A cgroup of version 2 whose files a test writes.
struct Fake {
    root: TempDir,
}

impl Fake {
    fn new(limit: u64, used: u64) -> Fake {
        let fake = Fake { root: tree(&[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", V2)]) };
        write(fake.root.path(), "sys/fs/cgroup/memory.max", &format!("{limit}\n"));
        fake.set(used, 0);
        fake
    }

    fn set(&self, used: u64, events: u64) {
        write(self.root.path(), "sys/fs/cgroup/memory.current", &format!("{used}\n"));
        write(self.root.path(), "sys/fs/cgroup/memory.events", &format!("high 0\nmax {events}\n"));
    }

    fn cgroup(&self) -> Cgroup {
        Cgroup::in_tree(self.root.path())
    }
}

#[test]
fn an_arena_shrinks_near_the_limit() {
    let fake = Fake::new(160 * MIB, 100 * MIB);
    let arena = Arena::builder().without_background().size(64 * MIB).limit(64 * MIB).cgroup(fake.cgroup());
    let arena = arena.on_shrink(|change| change.cause == Cause::CgroupLimit).build().unwrap();
    let far = arena.shrink_to_limit().unwrap();
    assert_eq!((far.shrunk, far.trimmed, arena.present()), (0, 0, 64 * MIB));
    assert_eq!(far.usage.unwrap().headroom(), Some(60 * MIB));
    fake.set(151 * MIB, 0);
    // 9 MiB are left, less than 10. 20 shall be.
    let near = arena.shrink_to_limit().unwrap();
    assert_eq!((near.reclaimed, near.refused, arena.present()), (0, None, 64 * MIB - near.shrunk));
    // The files stay as they are, so both looks see the limit near.
    assert_eq!((near.shrunk, near.trimmed), (24 * MIB, 52 * MIB));
    fake.set(100 * MIB, 3);
    let met = arena.shrink_to_limit().unwrap();
    assert_eq!((met.shrunk, arena.shrink_to_limit().unwrap().shrunk), (2 * MIB, 0), "the limit was met once");
    arena.validate().unwrap();
}

#[test]
fn what_was_done_is_told_though_the_second_look_fails() {
    let fake = Fake::new(160 * MIB, 151 * MIB);
    let file = fake.root.path().join("proc/self/cgroup");
    let builder = Arena::builder().without_background().size(64 * MIB).limit(64 * MIB).cgroup(fake.cgroup());
    let arena = builder.on_shrink(move |_| fs::write(&file, "nonsense").is_ok()).build().unwrap();
    let relief = arena.shrink_to_limit().unwrap();
    assert_eq!((relief.shrunk, relief.reclaimed, arena.present()), (12 * MIB, 0, 52 * MIB));
    assert!(arena.shrink_to_limit().is_err(), "the first look fails");
}

/// Frees blocks of an arena when asked to.
struct Cache(Arc<AtomicU64>);

impl Shrink for Cache {
    fn count(&self, _: NodeId) -> u64 {
        1000
    }

    fn scan(&self, scan: &Scan) -> u64 {
        self.0.fetch_add(scan.wanted, SeqCst);
        scan.wanted
    }
}

#[test]
fn holders_of_memory_are_asked_when_the_rest_is_not_enough() {
    let asked = Arc::new(AtomicU64::new(0));
    let fake = Fake::new(160 * MIB, 151 * MIB);
    for backing in [Backing::Private, Backing::Memfd] {
        let builder = Arena::builder().without_background().size(4 * MIB).backing(backing).cgroup(fake.cgroup());
        let arena = builder.shrinker(Arc::new(Cache(asked.clone()))).build().unwrap();
        let relief = arena.shrink_to_limit().unwrap();
        assert_eq!((relief.shrunk, relief.trimmed, relief.reclaimed), (0, 4 * MIB, 11 * MIB));
        assert_eq!(asked.swap(0, SeqCst) * 4096, 11 * MIB);
    }
}

#[test]
fn growth_by_itself_stays_away_from_the_limit() {
    let fake = Fake::new(160 * MIB, 100 * MIB);
    let arena =
        Arena::builder().without_background().size(4 * MIB).limit(64 * MIB).cgroup(fake.cgroup()).build().unwrap();
    let mut held: Vec<_> = (0..3).map(|_| arena.alloc(&HUGE).unwrap()).collect();
    assert_eq!(arena.present(), 6 * MIB);
    fake.set(149 * MIB, 0);
    // 11 MiB are left, and a sixteenth of the limit is 10.
    assert!(matches!(arena.alloc(&HUGE), Err(AllocError::NoMemory { .. })));
    fake.set(147 * MIB, 0);
    held.push(arena.alloc(&HUGE).unwrap());
    assert_eq!(
        (arena.present(), arena.grow(4 * MIB)),
        (8 * MIB, Ok(4 * MIB)),
        "what the program asks for is its own affair"
    );
    fs::write(fake.root.path().join("proc/self/cgroup"), "nonsense").unwrap();
    assert_eq!(arena.shrink_to_limit().unwrap_err().line, 1);
    held.extend((0..3).map(|_| arena.alloc(&HUGE).unwrap()));
    assert_eq!(arena.present(), 14 * MIB, "a cgroup that cannot be read limits nothing");
}

#[test]
fn refusals_are_told_and_a_thread_does_it_too() {
    let fake = Fake::new(160 * MIB, 151 * MIB);
    let builder = Arena::builder().without_background().size(16 * MIB).limit(64 * MIB).cgroup(fake.cgroup());
    let arena = builder.clone().on_shrink(|_| false).build().unwrap();
    let relief = arena.shrink_to_limit().unwrap();
    assert!(matches!(relief.refused, Some(ArenaError::Vetoed { what: "shrinking", .. })), "{relief:?}");
    assert_eq!((relief.shrunk, relief.trimmed), (0, 16 * MIB));
    let mut arena = builder.shrink_every(Duration::from_millis(1)).build().unwrap();
    let looks = (0..20_000).find(|_| {
        std::thread::sleep(Duration::from_millis(1));
        arena.present() <= 2 * MIB
    });
    assert!(looks.is_some(), "{} MiB are still present", arena.present() / MIB);
    assert!(arena.shrinker().unwrap().is_running());
    arena.validate().unwrap();
    assert_eq!(Arena::builder().size(MIB).build().unwrap().shrink_to_limit().unwrap().refused, None);
}
