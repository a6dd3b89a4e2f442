//! `framewright top`: frames of recorded and simulated sources, and what a user is told who asks for what cannot be.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::replay_synthetic::project;
use crate::transcript::{run, text, transcript};
use framewright::Request;
use framewright::request::GFP_USER;
use framewright::units::PfnRange;
use framewright_lab::top::map::{Block, BlockKind, cells};
use framewright_lab::top::sweep::{PageblockSweep, pageblocks};
use framewright_lab::top::{Asked, Kernel, Key, Screen, Socket, Theme, frame};
use framewright_rt::{Arena, Placement};
use framewright_trace::proc::ZoneInfo;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Letters and bars, no colours.
const THEME: Theme = Theme { has_colours: false, has_blocks: true };

/// Files of a 6.1, with flags of frames that are made up: free memory, files, slab, and pageblocks with both.
fn linux(folder: &Path, more: u64) -> Kernel {
    let fixtures = project().join("crates/framewright/tests/fixtures");
    for name in ["buddyinfo", "pagetypeinfo", "vmstat", "zoneinfo"] {
        let text = fs::read_to_string(fixtures.join(format!("linux-6.1-{name}.txt"))).unwrap();
        let count = |line: &str| {
            let grown =
                line.split_once(' ').filter(|(name, _)| matches!(*name, "pgalloc_normal" | "pgfree" | "compact_stall"));
            grown.map_or_else(
                || line.to_owned(),
                |(name, value)| format!("{name} {}", value.parse::<u64>().unwrap() + more),
            )
        };
        let text: Vec<String> = text.lines().map(count).collect();
        fs::write(folder.join(name), text.join("\n") + "\n").unwrap();
    }
    fs::create_dir_all(folder.join("sys/kernel")).unwrap();
    fs::write(folder.join("sys/kernel/osrelease"), "6.1.0\n").unwrap();
    let flags = |pfn: u64| match (pfn >> 9) % 16 {
        0..6 => 1 << 10,
        6..9 => 1 << 5,
        9 => 1 << 7,
        10 if pfn % 512 < 40 => 1 << 7,
        10 => 1 << 5,
        11 => 0,
        12 if pfn % 512 < 100 => 1 << 12,
        12 => 1 << 10,
        13 => 1_u64 << 32,
        _ => 1 << 12,
    };
    let zones = ZoneInfo::parse(&fs::read_to_string(folder.join("zoneinfo")).unwrap(), "zoneinfo").unwrap();
    let bytes: Vec<u8> = (0..zones.end_pfn().0).flat_map(|pfn| flags(pfn).to_le_bytes()).collect();
    fs::write(folder.join("kpageflags"), bytes).unwrap();
    Kernel::at(folder)
}

/// Seconds between two looks of which the share for pageblocks is enough to read them all, however slow this machine
/// is.
const LONG: f64 = 1e5;

/// A session on the 6.1, some samples old.
fn session(folder: &Path) -> Screen {
    let mut kernel = linux(folder, 0);
    let mut top = Screen::new(kernel.about().unwrap(), 1.0);
    top.take(kernel.look(0.0, LONG).unwrap());
    for (at, more) in [(1.0, 5_000), (2.0, 5_600), (3.0, 25_600)] {
        linux(folder, more);
        top.take(kernel.look(at, LONG).unwrap());
    }
    top
}

#[test]
fn a_kernels_screen_at_every_size() {
    let folder = tempfile::tempdir().unwrap();
    let mut top = session(folder.path());
    insta::assert_snapshot!("kernel_80x24", frame(&top, THEME, (80, 24)));
    insta::assert_snapshot!("kernel_200x60", frame(&top, THEME, (200, 60)));
    insta::assert_snapshot!("kernel_60x15", frame(&top, THEME, (60, 15)));
    insta::assert_snapshot!("kernel_30x8", frame(&top, THEME, (30, 8)));
    top.press(Key::Help);
    insta::assert_snapshot!("kernel_help", frame(&top, THEME, (80, 24)));
    insta::assert_snapshot!("kernel_help_narrow", frame(&top, THEME, (60, 15)));
}

#[test]
fn every_panel_can_be_zoomed() {
    let folder = tempfile::tempdir().unwrap();
    let mut top = session(folder.path());
    top.press(Key::Zoom);
    let zoomed: Vec<String> = (1..=5)
        .map(|number| {
            top.press(Key::Panel(number));
            frame(&top, THEME, (80, 24))
        })
        .collect();
    insta::assert_snapshot!(zoomed.join("\n"));
    // Without blocks, all that is drawn is ASCII.
    let plain = Theme { has_blocks: false, ..THEME };
    assert!(frame(&top, plain, (200, 60)).is_ascii());
}

#[test]
fn keys_do_what_the_help_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut top = session(folder.path());
    let zones: Vec<String> = (0..4)
        .map(|_| {
            top.press(Key::Zone(true));
            top.shown().title()
        })
        .collect();
    assert_eq!(zones, ["0 DMA", "0 DMA32", "0 Normal", "0 all zones"]);
    top.press(Key::Zone(false));
    assert_eq!(top.zone(), Some(2));
    assert_eq!(top.press(Key::Every(true)), Asked::Every(2.0));
    assert_eq!(top.press(Key::Every(false)), Asked::Every(1.0));
    let least = (0..9).map(|_| top.press(Key::Every(false))).last();
    assert_eq!(least, Some(Asked::Every(0.1)), "no faster than that");
    assert_eq!(top.press(Key::Pause), Asked::Pause(true));
    assert!(frame(&top, THEME, (80, 24)).lines().next().unwrap().ends_with("PAUSED"));
    assert_eq!(top.press(Key::Pause), Asked::Pause(false));
    // Escape leaves one thing after the other.
    top.press(Key::Zoom);
    top.press(Key::Help);
    let left: Vec<(bool, bool)> = (0..2)
        .map(|_| {
            assert_eq!(top.press(Key::Back), Asked::Nothing);
            (top.shows_help, top.is_zoomed)
        })
        .collect();
    assert_eq!((left, top.press(Key::Back)), (vec![(false, true), (false, false)], Asked::Quit));
}

#[test]
fn keys_can_be_read_where_they_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let mut top = session(folder.path());
    top.press(Key::Help);
    let pages: Vec<String> = (0..3)
        .map(|_| {
            let shown = frame(&top, THEME, (40, 10));
            (0..9).for_each(|_| _ = top.press(Key::Scroll(true)));
            shown
        })
        .collect();
    insta::assert_snapshot!(pages.join("\n"));
    assert!(top.shows_help && top.scroll == 0, "what is scrolled is the help");
}

#[test]
fn pageblocks_are_read_a_part_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let sample = linux(folder.path(), 0).look(0.0, LONG).unwrap();
    let block = |part: PfnRange| Block { zone: None, kind: BlockKind::Movable, frames: part.frames() as u32, used: 1 };
    let read = |range| Ok::<_, ()>(pageblocks(range, 512).map(block).collect());
    let mut sweep = PageblockSweep::default();
    let mut look = || sweep.look(&sample, read, |_, _| true).unwrap();
    let mut looks = vec![look()];
    while looks.last().unwrap().percent_read() < 100.0 {
        looks.push(look());
    }
    let percent: Vec<f64> = looks.iter().map(|map| map.percent_read().round()).collect();
    assert!(percent.is_sorted_by(|a, b| a < b) && percent.len() > 4, "{percent:?}");
    let all: Vec<usize> = looks.iter().map(|map| map.blocks.len()).collect();
    assert!(all.iter().all(|&count| count == all[0]), "what has not been read has its place");
    let unread = cells(&looks[0].blocks, 1).iter().filter(|cell| cell.letter == ' ').count();
    assert_eq!(unread, looks[0].blocks.iter().filter(|block| block.kind == BlockKind::Unread).count());
    // What has been read once is known, however little is read at a look.
    assert_eq!(look().percent_read(), 100.0);
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    let (mut master, slave) = terminal();
    let slaves = [slave.try_clone().unwrap(), slave.try_clone().unwrap(), slave];
    let [input, output, errors] = slaves.map(Stdio::from);
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewright"));
    command.args(["top", "--machine", "generic:2x2x1", "--workload", "page-fault1"]);
    let mut top = command.stdin(input).stdout(output).stderr(errors).spawn().unwrap();
    drop(command);
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("quit") {
        let mut some = [0; 4096];
        let count = master.read(&mut some).unwrap();
        shown.extend_from_slice(&some[..count]);
    }
    drop(master);
    // Only that it ends; how soon is the machine's.
    let patience = Instant::now() + Duration::from_secs(120);
    let status = loop {
        match top.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > patience => {
                top.kill().unwrap();
                panic!("it goes on without a terminal");
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(status.success(), "{status}");
}

/// A terminal's two ends.
fn terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(master), slave)
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let told = |kernel: &mut Kernel| {
        let error = kernel.look(0.0, 1.0).unwrap_err().to_string();
        error.replace(&folder.path().display().to_string(), "DIR")
    };
    let mut all = vec![told(&mut Kernel::at(folder.path()))];
    let mut kernel = linux(folder.path(), 0);
    fs::write(folder.path().join("buddyinfo"), "Node 0, zone DMA 1 2 x\n").unwrap();
    all.push(told(&mut kernel));
    fs::remove_file(folder.path().join("kpageflags")).unwrap();
    linux(folder.path(), 0);
    fs::remove_file(folder.path().join("kpageflags")).unwrap();
    let sample = Kernel::at(folder.path()).look(0.0, 1.0).unwrap();
    all.push(sample.map.unwrap_err());
    fs::remove_file(folder.path().join("pagetypeinfo")).unwrap();
    let sample = Kernel::at(folder.path()).look(0.0, 1.0).unwrap();
    assert!(sample.zones.iter().all(|zone| zone.types.is_none()), "what is for root alone may be missing");
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn a_kernel_on_this_allocator_tells_its_mechanisms() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = linux(folder.path(), 0);
    for (file, shown) in [
        ("off\n", "Linux's own mechanisms; the files of /proc"),
        ("validate sound: \nmechanisms depot=all,refill=blocks\nframes 1\n", "Framewright: depot=all,refill=blocks"),
    ] {
        fs::write(folder.path().join("framewright"), file).unwrap();
        assert_eq!(kernel.about().unwrap().mechanisms, shown);
    }
}

#[test]
fn what_cannot_be_shown_is_named() {
    let cases: &[&[&str]] = &[
        &["top"],
        &["top", "--once", "--size", "80"],
        &["top", "--once", "--size", "10x10"],
        &["top", "--size", "80x24"],
        &["top", "--once", "--every", "0"],
        &["top", "--once", "--from", "nowhere.sock"],
        &["top", "--once", "--from", "Cargo.toml"],
        &["top", "--once", "--workload", "no-such"],
        &["top", "--once", "--cpus", "1,2"],
        &["top", "--once", "--until", "0"],
        &["top", "--kernel", "--from", "pool.sock"],
        &["top", "--once", "--machine", "generic:1x1x1", "--seconds", "0.0001", "--every", "1"],
    ];
    let all: Vec<String> = cases.iter().map(|case| transcript(Path::new("DIR"), case)).collect();
    insta::assert_snapshot!(all.join("\n"));
}

/// A run that takes a moment.
const SHORT: [&str; 9] =
    ["--machine", "generic:2x2x1", "--every", "0.0002", "--until", "0.002", "-m", "baseline", "--workload"];

#[test]
fn a_simulated_run_is_the_same_each_time() {
    let shown = |size: &str| {
        let arguments = [&["top", "--once", "--size", size][..], &SHORT, &["page-fault1:pages=50"]].concat();
        transcript(Path::new("DIR"), &arguments)
    };
    insta::assert_snapshot!("simulation_80x24", shown("80x24"));
    insta::assert_snapshot!("simulation_200x60", shown("200x60"));
    assert_eq!(shown("80x24"), shown("80x24"));
}

#[test]
fn a_live_process_is_shown_until_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Arena::builder().node(16 << 20, Placement::Anywhere).node(16 << 20, Placement::Anywhere);
    let arena = builder.without_background().cpus(2).build().unwrap();
    let _pages: Vec<_> = (0..6).map(|order| arena.alloc(&Request::new(GFP_USER, order)).unwrap()).collect();
    let path = folder.path().join("pool.sock");
    let export = arena.export(&path).unwrap();
    let socket = Socket::at(&path);
    let mut top = Screen::new(socket.about().unwrap(), 1.0);
    top.take(socket.look(0.0).unwrap());
    top.take(socket.look(1.0).unwrap());
    let place = folder.path().display().to_string();
    insta::assert_snapshot!("process_80x24", frame(&top, THEME, (80, 24)).replace(&place, "DIR"));
    drop(export);
    assert!(socket.look(2.0).is_err(), "nobody answers any more");
}

#[test]
fn this_machines_kernel_is_shown_once() {
    if !Path::new("/proc/zoneinfo").exists() {
        eprintln!("SKIPPED: this machine has no /proc/zoneinfo");
        return;
    }
    let output = run(&["top", "--once", "--every", "0.1", "--size", "100x30"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(shown.starts_with("kernel ") && shown.lines().count() == 30, "{shown}");
    assert!(shown.contains("Free pages: all zones") && shown.contains("pages allocated"), "{shown}");
}
