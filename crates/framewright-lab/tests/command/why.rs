//! Reports of a kernel as a user asks about them: the answers, the page, the lists of operations, and every error.

use std::fs;
use std::path::Path;

use crate::replay_synthetic::project;
use crate::transcript::shown;

/// What the command prints for each line of arguments, where `DIR` is a folder with published reports.
fn transcripts(commands: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let reports = project().join("data/reports");
    for (name, file) in [
        ("order4.txt", "23-btrfs-order4.txt"),
        ("memcg.txt", "04-memcg-limit.txt"),
        ("two.txt", "68-vmalloc-17gb-two-reports.txt"),
        ("numa.txt", "48-mount-nfs-order5-numa.txt"),
    ] {
        fs::copy(reports.join(file), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("state.txt"), STATE).unwrap();
    fs::write(folder.path().join("none.txt"), "all is well\n").unwrap();
    state(&folder.path().join("proc"));
    for empty in ["empty", "broken"] {
        fs::create_dir(folder.path().join(empty)).unwrap();
    }
    fs::write(folder.path().join("broken/zoneinfo"), "Node 0, zone Normal\n  pages free lots\n").unwrap();
    commands.iter().map(|command| shown(folder.path(), command) + "\n").collect()
}

/// A state of memory without a request.
const STATE: &str = "\
[  7.1] sysrq: Show Memory
[  7.1] Mem-Info:
[  7.1] Node 0 DMA free:1016kB boost:0kB min:92kB low:112kB high:132kB reserved_highatomic:0KB managed:15360kB free_pcp:0kB
[  7.1] lowmem_reserve[]: 0 0 407 407
[  7.1] Node 0 Normal free:29260kB boost:4728kB min:6832kB low:7356kB high:7880kB reserved_highatomic:2048KB managed:346112kB free_pcp:64kB
[  7.1] lowmem_reserve[]: 0 0 0 0
[  7.1] Node 0 DMA: 0*4kB 3*8kB (UE) 0*16kB 1*32kB (U) 1*64kB (U) 1*128kB (U) 1*256kB (E) 1*512kB (U) 0*1024kB 0*2048kB 0*4096kB = 1016kB
[  7.1] Node 0 Normal: 6803*4kB (UME) 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 1*2048kB (H) 0*4096kB = 29260kB
";

/// The files of a small machine.
fn state(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let zoneinfo = "\
Node 0, zone   Normal
  pages free     700
        boost    0
        min      64
        low      80
        high     96
        spanned  4096
        present  4096
        managed  4000
        cma      0
        protection: (0, 0)
  pagesets
    cpu: 0
              count: 5
              high:  14
              batch: 1
  start_pfn:           0
";
    fs::write(folder.join("zoneinfo"), zoneinfo).unwrap();
    fs::write(
        folder.join("buddyinfo"),
        "Node 0, zone   Normal    100     20      6      1      0      1     16      0      0      0      0\n",
    )
    .unwrap();
    fs::write(folder.join("version"), "Linux version 6.6.1 (gcc)\n").unwrap();
}

#[test]
fn failures_are_answered() {
    insta::assert_snapshot!(transcripts(&[
        "why DIR/order4.txt -m default -m linux-6.1",
        "why DIR/two.txt DIR/memcg.txt",
        "why DIR/two.txt --only 2 --kernel 4.4",
        "why --watch DIR/order4.txt",
    ]));
}

#[test]
fn a_state_is_tried_with_a_request() {
    insta::assert_snapshot!(transcripts(&[
        "why DIR/state.txt",
        "why DIR/state.txt --order 3 --gfp GFP_ATOMIC --kernel 6.1.192",
        "why DIR/state.txt --order 0 --gfp GFP_NOWAIT|GFP_DMA",
        "state DIR/proc --page-size 4096",
        "state DIR/proc --page-size 4096 --order 7 --gfp GFP_KERNEL",
    ]));
}

#[test]
fn answers_are_written_for_programs() {
    insta::assert_snapshot!(transcripts(&[
        "why DIR/order4.txt --format json",
        "why --watch DIR/memcg.txt --format json",
        "state DIR/proc --page-size 4096 --format json"
    ]));
}

#[test]
fn a_state_becomes_a_list_that_runs() {
    insta::assert_snapshot!(
        transcripts(&[
            "why DIR/order4.txt --only 1 --ops DIR/order4.ops --format json --report DIR/ticket",
            "ops DIR/order4.ops",
            "state DIR/proc --page-size 4096 --order 7 --gfp GFP_KERNEL --ops DIR/state.ops",
            "ops DIR/state.ops -m baseline",
        ])
        .lines()
        .filter(|line| !line.starts_with([' ', '{', '}', '[', ']']))
        .collect::<Vec<_>>()
        .join("\n")
    );
}

#[test]
fn what_cannot_be_answered_is_named() {
    insta::assert_snapshot!(transcripts(&[
        "why DIR/none.txt",
        "why DIR/gone.txt",
        "why DIR/empty",
        "why DIR/order4.txt --only 2",
        "why DIR/order4.txt --gfp GFP_MAGIC",
        "why DIR/order4.txt --order 31",
        "why DIR/order4.txt --node 7",
        "why DIR/order4.txt --gfp 0xgg",
        "why DIR/order4.txt -m nonsense",
        "why DIR/two.txt --ops DIR/two.ops",
        "why --watch DIR/gone.txt",
        "why --watch DIR/order4.txt DIR/memcg.txt",
        "state DIR/broken",
        "why DIR/order4.txt --ops DIR/none.txt",
        "state DIR/empty",
        "state DIR/gone",
        "state DIR/proc --page-size 5000",
    ]));
}

/// The page says in words what it draws, and nothing of a log reaches it as a tag.
#[test]
fn the_page_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.txt");
    let text = fs::read_to_string(project().join("data/reports").join("23-btrfs-order4.txt")).unwrap();
    fs::write(&log, text.replace("md5sum", "<b>md5</b>")).unwrap();
    shown(folder.path(), "why DIR/log.txt --report DIR/ticket");
    let page = fs::read_to_string(folder.path().join("ticket/index.html")).unwrap();
    assert!(page.contains("Would fail: zone 0 Normal has 15,712 frames to spare, but no block of order 4."));
    assert!(page.contains("0 DMA32") && page.contains("What would have helped") && page.contains("&lt;b&gt;"));
    assert!(!page.contains("<b>md5"), "a task's name is no tag");
    assert!(folder.path().join("ticket/why.json").exists());
}
