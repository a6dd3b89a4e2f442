//! Heads and lines that were not read at first, each shortened, with what they say.

use framewright::request::{__GFP_COMP, GFP_ATOMIC, GFP_KERNEL};
use framewright_report::answer::{Answer, Cause, answer};
use framewright_report::decision::{Outcome, Query};
use framewright_report::read::reports;
use framewright_report::remedies::Helps;
use framewright_report::report::{Kind, Report};

const ZONES: &str = "\
Mem-Info:
 free:3823293 free_pcp:0 free_cma:0
Node 0 DMA free:1024kB boost:0kB min:0kB low:0kB high:0kB reserved_highatomic:0KB managed:15360kB free_pcp:0kB
lowmem_reserve[]: 0 0 0 0
Node 0 DMA: 0*4kB 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 1*1024kB (U) 0*2048kB 0*4096kB = 1024kB
";

fn only(head: &str) -> Report {
    let text = format!("{head}{ZONES}");
    let mut found = reports(&text);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn of(head: &str) -> Answer {
    answer(&only(head))
}

#[test]
fn heads_are_read_however_they_are_broken() {
    for (head, order, release) in [
        ("kworker/0:1: vmemmap alloc failure: order:9, mode:0x4cc0(GFP_KERNEL|__GFP_RETRY_MAYFAIL)\n", 9, None),
        (
            "> sh invoked oom-killer: gfp_mask=0xd0,\n> order=2, oomkilladj=0 Mar 17 01:33:12 host kernel: CPU: 5 Not tainted\n> 2.6.28 #1\n",
            2,
            Some("2.6.28"),
        ),
        ("mkfs.ext4 invoked\noom-killer: gfp_mask=0x101cc0(GFP_USER|__GFP_WRITE), order=0, oom_score_adj=0\n", 0, None),
        (
            "[Playing  (List Repeated)][00:02:54/00:04:07]swapper/0: page allocation failure: order:0, mode:0x200020\n",
            0,
            None,
        ),
        (
            "x: page allocation failure: order:1, mode:0x204020\nCPU: 17 PID: 1652 Comm: kworker/17:1H Tainted: G\n W  OE  ------------   3.10.0-327 #1\n",
            1,
            Some("3.10.0-327"),
        ),
        (
            "x: page allocation failure: order:1, mode:0xcc0(GFP_KERNEL)\n> CPU: 1 PID: 2 Comm: x Not tainted\n> 6.10.0-rc2+ #1\n",
            1,
            Some("6.10.0-rc2+"),
        ),
        ("pidof invoked oom-killer: gfp_mask=3D0x840d0, order=3D0, oom_adj=3D0, oom_s=\ncore_adj=3D0\n", 0, None),
    ] {
        let report = only(head);
        let asked = report.asked.as_ref().unwrap();
        assert_eq!((asked.order, report.release.as_deref()), (Some(order), release), "{head}");
    }
}

#[test]
fn a_number_without_names_is_an_old_kernels() {
    for (number, gfp) in [("0x204020", GFP_ATOMIC | __GFP_COMP), ("0x2040d0", GFP_KERNEL | __GFP_COMP)] {
        let mut report = only(&format!("x: page allocation failure: order:1, mode:{number}\n"));
        assert_eq!(Query::of(&report).unwrap().gfp, gfp, "{number}");
        // Without zones nothing else tells the kernel.
        report.memory.zones.clear();
        assert_eq!(Query::of(&report).unwrap().gfp, gfp, "{number}");
    }
}

#[test]
fn a_vmalloc_says_how_it_ended() {
    let bytes =
        |bytes: u64| format!("x: vmalloc: allocation failure: {bytes} bytes, mode:0xcc2(GFP_KERNEL|__GFP_HIGHMEM)\n");
    assert_eq!(of(&bytes(0)).verdict.cause, Cause::Size);
    assert_eq!(of(&bytes(4_096)).verdict.cause, Cause::Addresses);
    let pages =
        "x: vmalloc error: size 0, page order 9, failed to allocate pages, mode:0xcc2(GFP_KERNEL|__GFP_HIGHMEM)\n";
    assert_eq!(of(pages).verdict.outcome, Outcome::Fails);
    let old =
        only("vmalloc: allocation failure: 17178820608 bytes\nx: page allocation failure: order:0, mode:0x24000c2\n");
    assert_eq!((old.kind, old.vmalloc.bytes), (Kind::Vmalloc, Some(17_178_820_608)));
}

#[test]
fn zones_without_a_line_are_not_without_memory() {
    let answer = of("x: page allocation failure: order:9, mode:0xcc1(GFP_KERNEL|GFP_DMA), nodemask=(null)\n");
    let any = answer.remedies.iter().find(|remedy| remedy.change == "any zone").unwrap();
    assert_eq!(any.helps, Helps::Perhaps);
    assert!(any.note.starts_with("3,823,037 frames are free"), "{}", any.note);
}

#[test]
fn the_callers_of_a_log_are_kept_apart() {
    let mut text = String::new();
    for line in ZONES.lines() {
        text += &format!("[  1.0][   T7] {line}\n[  1.0][   C1] {line}\n");
    }
    let head = "page allocation failure: order:0, mode:0xcc0(GFP_KERNEL)";
    let found = reports(&format!("[  1.0][   T7] a: {head}\n[  1.0][   C1] b: {head}\n{text}"));
    let tasks: Vec<_> = found.iter().map(|report| (report.task.as_deref(), report.memory.zones.len())).collect();
    assert_eq!(tasks, [(Some("a"), 1), (Some("b"), 1)]);
}
