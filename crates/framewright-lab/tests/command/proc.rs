//! `framewright proc` as a user runs it: of small simulated runs, and of an arena that this process shows.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::transcript::{framewright, run, text, transcript};
use framewright::request::GFP_USER;
use framewright::{NodeId, Request};
use framewright_rt::{Arena, Placement, ReportFile};

/// A run that takes a moment.
const SHORT: [&str; 8] =
    ["--machine", "generic:2x2x1", "--seconds", "0.002", "--warm-up", "0.001", "--workload", "page-fault1:pages=50"];

fn simulated(file: &[&str]) -> String {
    transcript(Path::new("DIR"), &[&["proc"], file, &SHORT].concat())
}

/// An arena of two nodes in which nothing moves.
fn arena() -> Arena {
    let builder = Arena::builder().node(16 << 20, Placement::Anywhere).node(16 << 20, Placement::Anywhere);
    builder.without_background().cpus(2).build().unwrap()
}

#[test]
fn files_of_a_simulated_run() {
    let files = ["buddyinfo", "numastat", "pagetypeinfo", "unusable_index", "extfrag_index"];
    let all: String = files.iter().map(|file| simulated(&[file, "-m", "baseline"]) + "\n").collect();
    insta::assert_snapshot!(all);
    // What the others have more depends on how counters are kept, which is not the matter here.
    let begins = [
        (&["zoneinfo"][..], "Node 0, zone      DMA\n  pages free     0\n"),
        (&["vmstat"], "nr_free_pages "),
        (&["vmstat", "--node", "1"], "nr_free_pages "),
    ];
    for (file, first) in begins {
        let output = simulated(file);
        assert!(output.lines().skip(1).collect::<Vec<_>>().join("\n").starts_with(first), "{output}");
        assert_eq!(simulated(file), output, "the same command prints the same bytes");
    }
}

#[test]
fn files_of_a_live_process_are_byte_for_byte_its_own() {
    let (arena, folder) = (arena(), tempfile::tempdir().unwrap());
    let _pages: Vec<_> = (0..6).map(|order| arena.alloc(&Request::new(GFP_USER, order)).unwrap()).collect();
    let socket = folder.path().join("pool.sock").display().to_string();
    let _export = arena.export(&socket).unwrap();
    let of = |file: ReportFile| file.text(arena.source()).unwrap();
    let numastat =
        [0, 1].map(|node| format!("==> node{node}/numastat <==\n{}", of(ReportFile::NumaStat(NodeId(node)))));
    let cases: [(&[&str], String); 9] = [
        (&["buddyinfo"], of(ReportFile::BuddyInfo)),
        (&["zoneinfo"], of(ReportFile::ZoneInfo)),
        (&["vmstat"], of(ReportFile::VmStat)),
        (&["vmstat", "--node", "1"], of(ReportFile::NodeVmStat(NodeId(1)))),
        (&["numastat"], numastat.join("\n")),
        (&["numastat", "--node", "0"], of(ReportFile::NumaStat(NodeId(0)))),
        (&["pagetypeinfo"], of(ReportFile::PageTypeInfo)),
        (&["unusable_index"], of(ReportFile::UnusableIndex)),
        (&["extfrag_index"], of(ReportFile::ExtfragIndex)),
    ];
    for (file, expected) in cases {
        let output = run(&[&["proc"], file, &["--from", &socket]].concat());
        assert_eq!((text(&output.stdout), text(&output.stderr)), (expected, String::new()), "{file:?}");
    }
}

/// Every file below a folder, by its path from there.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry)
            } else {
                files.push(entry.strip_prefix(folder).unwrap().to_owned())
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_tree_has_linuxs_shape() {
    let (arena, folder) = (arena(), tempfile::tempdir().unwrap());
    let (socket, tree) = (folder.path().join("pool.sock").display().to_string(), folder.path().join("tree"));
    let _export = arena.export(&socket).unwrap();
    let written = transcript(folder.path(), &["proc", "tree", &tree.display().to_string(), "--from", &socket]);
    let files: Vec<String> = below(&tree).iter().map(|path| path.display().to_string()).collect();
    insta::assert_snapshot!(format!("{written}\n{}\n", files.join("\n")));
    for file in ReportFile::OF_ALL.into_iter().chain([0, 1].map(NodeId).into_iter().flat_map(ReportFile::of_node)) {
        assert_eq!(fs::read_to_string(tree.join(file.path())).unwrap(), file.text(arena.source()).unwrap(), "{file}");
    }
    // Of a simulated run as well.
    let output = run(&[&["proc", "tree", &tree.display().to_string()], &SHORT[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let buddyinfo = fs::read_to_string(tree.join("proc/buddyinfo")).unwrap();
    assert!(buddyinfo.starts_with("Node 0, zone   Normal") && buddyinfo.lines().count() == 2, "{buddyinfo}");
}

#[test]
fn a_tree_goes_with_its_process() {
    let (arena, folder) = (arena(), tempfile::tempdir().unwrap());
    let (socket, tree) = (folder.path().join("pool.sock").display().to_string(), folder.path().join("tree"));
    let export = arena.export(&socket).unwrap();
    let arguments = ["proc", "tree", &tree.display().to_string(), "--from", &socket, "--every", "10ms"];
    let mut child = framewright(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("11 files below "), "{line}");
    let vmstat = tree.join("proc/vmstat");
    let before = fs::read_to_string(&vmstat).unwrap();
    let _pages = arena.alloc(&Request::new(GFP_USER, 9)).unwrap();
    while fs::read_to_string(&vmstat).unwrap() == before {
        std::thread::yield_now();
    }
    drop(export);
    let output = child.wait_with_output().unwrap();
    let error = text(&output.stderr);
    assert!(error.starts_with("error: the files were removed: no ") && output.status.code() == Some(2), "{error}");
    assert_eq!(below(&tree), Vec::<PathBuf>::new());
}

#[test]
fn what_cannot_be_shown_is_named() {
    let (arena, folder) = (arena(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let _export = arena.export(path("pool.sock")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(path("stale.sock")).unwrap());
    fs::write(path("file"), "").unwrap();
    let long = path(&"a".repeat(150));
    let cases: [&[&str]; 18] = [
        &["zoneinfo", "--from", &path("nothing.sock")],
        &["zoneinfo", "--from", &path("stale.sock")],
        &["zoneinfo", "--from", &path("file")],
        &["numastat", "--node", "2", "--from", &path("pool.sock")],
        &["vmstat", "--node", "64"],
        &["zoneinfo", "--node", "0", "--from", &path("pool.sock")],
        &["meminfo"],
        &[],
        &["zoneinfo", "--from", &path("pool.sock"), "--cpus", "4"],
        &["zoneinfo", "--cpus", "1,2"],
        &["zoneinfo", "-m", "baseline", "-m", "default"],
        &["zoneinfo", "--workload", "mlc"],
        &["numastat", "--node", "7", "--machine", "generic:2x2x1", "--seconds", "0.001", "--warm-up", "0"],
        &["tree"],
        &["tree", &path("tree"), "--every", "1s"],
        &["tree", &path("tree"), "--every", "1s", "--machine", "generic:2x2x1"],
        &["tree", &path("tree"), "--from", &path("pool.sock"), "--every", "1h"],
        &["tree", &path("file"), "--from", &path("pool.sock")],
    ];
    let all = |arguments: &[&str]| transcript(folder.path(), &[&["proc"], arguments].concat()) + "\n";
    insta::assert_snapshot!(cases.into_iter().map(all).collect::<String>());
    // The folder's length would show.
    let error = text(&run(&["proc", "zoneinfo", "--from", &long]).stderr);
    assert!(error.ends_with("and a socket's at most 107\n"), "{error}");
}
