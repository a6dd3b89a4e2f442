//! Every error that a user can see: it names what is wrong and where, the exit code is 2, and nothing is printed as a
//! result.

use std::fs;
use std::io::Write;

use crate::replay_synthetic::{KERNEL, START, Synthetic};
use crate::transcript::{refused, run, transcript};
use flate2::Compression;
use flate2::write::GzEncoder;

fn recording() -> Synthetic {
    let mut trace = Synthetic::new();
    trace.alloc(START, 0, KERNEL).free(START, 0);
    trace
}

#[test]
fn what_is_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    fs::create_dir(folder.path().join("empty")).unwrap();
    write("notes.txt", b"Dear diary,\ntoday nothing was allocated.\n");
    write("nothing.txt", b"");
    write("others.txt", b" fio-1 [000] ..... 1.0: sched_switch: prev_comm=a\n");
    write("two/trace.txt", b"");
    write("two/other.fwt", b"");
    write("image.fwt", b"\x89PNG\r\n\x1a\n");
    write("escape.txt", b"\x1b[31mred\n");
    let commands = [
        "replay DIR/missing",
        "replay DIR/empty",
        "replay DIR/two",
        "replay DIR/notes.txt",
        "replay DIR/nothing.txt",
        "replay DIR/others.txt",
        "replay DIR/image.fwt",
        "replay DIR/escape.txt",
        "convert DIR/missing DIR/out.fwt",
        "convert DIR/empty DIR/out.fwt",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
    assert!(!folder.path().join("out.fwt").exists());
}

#[test]
fn malformed_lines_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, trace: &str| fs::write(folder.path().join(name), trace).unwrap();
    let good = recording().trace;
    write("field.txt", &format!("{good} fio-1 [000] ..... 1.5: mm_page_free: page=abcd order=0\n"));
    write("number.txt", &format!("{good} fio-1 [000] ..... 1.5: mm_page_free: pfn=zz\x1b order=0\n"));
    write("order.txt", &format!("{good} fio-1 [000] ..... 1.5: mm_page_free: pfn=1 order=99\n"));
    write("cut.txt", good.trim_end());
    write(
        "flag.txt",
        &format!("{good} fio-1 [000] ..... 1.5: mm_page_alloc: pfn=1 order=0 migratetype=0 gfp_flags=GFP_NO\n"),
    );
    write("address.txt", &format!("{good} fio-1 [000] ..... 1.5: page_migrate: old=0x10 new=0x20\n"));
    fs::create_dir(folder.path().join("state")).unwrap();
    recording().write(&folder.path().join("state"));
    let zoneinfo = recording().zoneinfo().replace("spanned  4096", "spanned  lots");
    fs::write(folder.path().join("state/zoneinfo"), zoneinfo).unwrap();
    let commands = [
        "replay DIR/field.txt",
        "replay DIR/number.txt",
        "replay DIR/order.txt",
        "replay DIR/cut.txt",
        "replay DIR/flag.txt",
        "replay DIR/address.txt",
        "replay DIR/state",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
    // What can be read is replayed if asked to, and the rest counted.
    let lenient =
        transcript(folder.path(), &["replay", "--lenient", &folder.path().join("field.txt").display().to_string()]);
    assert!(lenient.contains("not used: events that could not be read 1\n") && lenient.ends_with("[0]\n"), "{lenient}");
}

/// Advice is given where it helps, and a limit of the program is called one.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_only_the_user_can_tell_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let alloc =
        |fields: &str| format!(" fio-1 [000] ..... 1.5: mm_page_alloc: page=ab pfn=7 order=0 migratetype=0 {fields}\n");
    let fallback = |order: u8| {
        format!(
            " fio-1 [000] ..... 1.6: mm_page_alloc_extfrag: page=ab pfn=7 alloc_order=0 fallback_order=1 pageblock_order={order} \
             alloc_migratetype=0 fallback_migratetype=1 fragmenting=1 change_ownership=0\n"
        )
    };
    write("raw.txt", &alloc("gfp_flags=0x14000c0"));
    write("bits.txt", &alloc("gfp_flags=0x80000cc0"));
    write(
        "atomic.txt",
        &(" fio-1 [000] ..... 1.4: mm_page_alloc: page=ab pfn=0x7 order=0 migratetype=0 gfp_flags=0x820\n"
            .repeat(12_000)
            + &alloc("gfp_flags=0xa20")),
    );
    write("vendor.txt", &alloc("gfp_flags=GFP_KERNEL|__GFP_CMA"));
    write("buried.txt", " fio-1 [000] ..... 1.5: sched_switch: mm_page_free: page=ab pfn=7 order=0\n");
    write("head.txt", "fio 1 1.5: kmem:mm_page_free: page=ab pfn=7 order=0\n");
    write("ticks.txt", " fio-1 [000] ..... 15: mm_page_free: page=ab pfn=7 order=0\n");
    write("orders.txt", &(alloc("gfp_flags=GFP_KERNEL") + &fallback(13) + &fallback(9)));
    write("version/trace.txt", &alloc("gfp_flags=GFP_KERNEL"));
    write("version/version", "of today\n");
    let node = |node: u32, start: u64, frames: u64| {
        format!(
            "Node {node}, zone   Normal\n  pages free     {frames}\n        min      1\n        low      1\n        high     1\n        \
             spanned  {frames}\n        present  {frames}\n  start_pfn:           {start}\n"
        )
    };
    let folder_of = |name: &str, zones: String| {
        write(&format!("{name}/trace.txt"), &alloc("gfp_flags=GFP_KERNEL"));
        write(&format!("{name}/zoneinfo"), &zones);
    };
    folder_of("nodes", (0..65).map(|i| node(i, u64::from(i) * 1024, 1024)).collect());
    folder_of("shared", node(0, 0, 1024) + &node(1, 512, 1024));
    folder_of("large", node(0, 0, 1 << 40));
    folder_of("start", node(0, 0, 1024).replace("start_pfn", "first_pfn"));
    let commands = [
        "replay DIR/raw.txt",
        "explain DIR/raw.txt",
        "convert DIR/raw.txt DIR/out.fwt",
        "replay DIR/bits.txt",
        "replay DIR/bits.txt --kernel 6.8",
        "replay DIR/atomic.txt",
        "replay DIR/vendor.txt",
        "replay DIR/buried.txt",
        "replay DIR/head.txt",
        "replay DIR/ticks.txt",
        "replay DIR/orders.txt",
        "replay DIR/version",
        "replay DIR/nodes",
        "replay DIR/shared",
        "replay DIR/large",
        "replay DIR/start",
        "replay DIR/raw.txt --kernel newest",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
    // What the user tells is taken.
    let raw = folder.path().join("raw.txt").display().to_string();
    let told = transcript(folder.path(), &["replay", &raw, "--kernel", "4.14"]);
    assert!(told.contains("1 events: 1 mm_page_alloc\n") && told.ends_with("[0]\n"), "{told}");
    let lenient = transcript(folder.path(), &["replay", &raw, "--lenient"]);
    assert!(lenient.contains("left out of their requests: 0x1400000 1\n"), "{lenient}");
}

#[test]
fn truncated_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace: String = (0..200).map(|_| recording().trace).collect();
    let mut gz = GzEncoder::new(Vec::new(), Compression::default());
    gz.write_all(trace.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    fs::write(folder.path().join("cut.txt.gz"), &gz[..gz.len() / 2]).unwrap();
    let zst = ruzstd::encoding::compress_to_vec(trace.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    fs::write(folder.path().join("cut.txt.zst"), &zst[..zst.len() / 2]).unwrap();
    fs::write(folder.path().join("whole.txt"), &trace).unwrap();
    let (text, compact) = (folder.path().join("whole.txt"), folder.path().join("cut.fwt"));
    assert!(run(&["convert", &text.display().to_string(), &compact.display().to_string()]).status.success());
    let whole = fs::read(&compact).unwrap();
    fs::write(&compact, &whole[..whole.len() - 20]).unwrap();
    fs::write(folder.path().join("header.fwt"), &whole[..20]).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(folder.path().join("damaged.fwt"), damaged).unwrap();
    let commands = [
        "replay DIR/cut.txt.gz",
        "replay DIR/cut.txt.zst",
        "replay DIR/cut.fwt",
        "replay DIR/header.fwt",
        "replay DIR/damaged.fwt",
        "convert DIR/cut.txt.gz DIR/out.fwt",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
    assert!(!folder.path().join("out.fwt").exists(), "nothing half is left behind");
}

#[test]
fn machines_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, trace: &Synthetic| {
        fs::create_dir(folder.path().join(name)).unwrap();
        trace.write(&folder.path().join(name));
    };
    let mut outside = recording();
    outside.alloc(0x9000, 3, KERNEL);
    write("outside", &outside);
    let mut twice = recording();
    twice.zones.push(twice.zones[0].clone());
    write("twice", &twice);
    write("small", &recording());
    let commands = ["replay DIR/outside", "replay DIR/twice", "replay DIR/small --max-memory 0", "replay -"];
    insta::assert_snapshot!(refused(folder.path(), commands));
}

#[test]
fn mechanisms_that_do_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).unwrap();
    recording().write(folder.path());
    write("syntax.toml", b"fallback = claim-steal\n");
    write("escape.toml", b"fallback = \"\x1b[31m\"\n");
    write("switch.toml", b"fallbak = \"classic\"\n");
    write("choice.toml", b"fallback = \"clasic\"\n");
    write("preset.toml", b"preset = \"bestline\"\n");
    write("type.toml", b"fallback = 3\n");
    write("table.toml", b"[preset]\nname = 1\n");
    write("bytes.toml", b"fallback = \"\xff\"\n");
    write("large.toml", &[b'\n'; 70_000]);
    let commands = [
        "replay DIR --mechanisms fallbak=classic",
        "replay DIR --mechanisms fallback=clasic",
        "replay DIR --mechanisms bestline",
        "mechanisms fallback bestline",
        "replay DIR --mechanisms baseline,fallback",
        "replay DIR --mechanisms baseline,,",
        "replay DIR --mechanisms =",
        "replay DIR --mechanisms DIR/missing.toml",
        "replay DIR --mechanisms DIR/syntax.toml",
        "replay DIR --mechanisms DIR/escape.toml",
        "replay DIR --mechanisms DIR/switch.toml",
        "replay DIR --mechanisms DIR/choice.toml",
        "replay DIR --mechanisms DIR/preset.toml",
        "replay DIR --mechanisms DIR/type.toml",
        "replay DIR --mechanisms DIR/table.toml",
        "replay DIR --mechanisms DIR/bytes.toml",
        "replay DIR --mechanisms DIR/large.toml",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
}

#[test]
fn arguments_that_make_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    recording().write(folder.path());
    let whole = folder.path().join("whole.fwt");
    fs::write(&whole, "mine").unwrap();
    let commands = [
        "replay DIR DIR",
        "replay DIR --format yaml",
        "replay --vmemmap here",
        "replay --max-memory lots",
        "rerun",
        "convert DIR/trace.txt",
        "convert DIR/trace.txt DIR/whole.fwt",
        "convert DIR/trace.txt DIR/missing/out.fwt",
        "convert DIR/trace.txt DIR --force",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
    assert_eq!(fs::read(&whole).unwrap(), b"mine");
}

#[test]
fn tables_that_do_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    fs::write(folder.path().join("index.html"), "<p>Dear diary").unwrap();
    // A page in UTF-16, and data beside no page.
    let wide = b"\xff\xfe<\0p\0>\0";
    for (name, file, content) in [("wide", "index.html", wide.as_slice()), ("data", "runs.json", b"[1, 2]")] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join(file), content).unwrap();
    }
    let commands = [
        "reproduce",
        "reproduce zone",
        "reproduce zone-lock --seed soon",
        "reproduce zone-lock --mib 512",
        "reproduce numa-stats --quick --seeds 3",
        "reproduce fragmentation --mib 32",
        "reproduce fragmentation --seeds 0",
        "reproduce zone-lock --quick --bands DIR/bands.toml",
        "reproduce all --mib 512",
        "reproduce zone-lock --report DIR",
        "reproduce zone-lock --report DIR/file",
        "reproduce all --quick --report DIR/wide",
        "reproduce all --quick --bands DIR/index.html",
        "reproduce all --quick --bands DIR/none/bands.toml",
        "reproduce all --quick --bands DIR",
        "sim --report DIR/data",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
    assert_eq!(fs::read(folder.path().join("wide/index.html")).unwrap(), wide);
}

#[test]
fn benchmarks_that_do_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let commands = [
        "bench --workload repeat,batch-3",
        "bench --allocator framewright,tcmalloc",
        "bench --threads 0",
        "bench --threads 2,two",
        "bench --rounds 0",
        "bench --workload producer-consumer --threads 1",
        "bench --mechanisms fallback=clasic",
        "bench repeat",
        "bench --format page_bench --workload repeat,rand",
        "bench --format page_bench --workload producer-consumer",
        "bench --format mmtests --workload batch,repeat",
        "bench --format mmtests --workload fifo",
        "bench --format csv",
        "bench --sim --format benchstat",
        "bench --kernel --format mmtests",
        "bench --kernel --workload repeat",
        "bench --rounds 1 --counted kernel-lokal",
        "bench --workload storm,batch --format json",
        "bench --workload storm --format benchstat",
        "bench --workload storm --threads 1,2",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
}
