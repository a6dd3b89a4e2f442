//! Hostile bytes through every input of every command: files, names of files, arguments, variables of the environment
//! and sockets. Nothing that a terminal would obey comes out on either stream.
//!
//! The commands are those that the help lists: a new one fails here until it has a case. A case is a line of arguments
//! with one input that is spoilt in several places. `escapes.rs` has inputs that need a test of their own.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::replay_synthetic::{MOVABLE, START, Synthetic, project};
use crate::transcript::{commands, framewright, section, short_help};

/// A title and a colour, a bell, the second set of controls, a delete, a return, and what orders or breaks lines.
const HOSTILE: &str = "\u{1b}]0;t\u{7}\u{1b}[31m\u{9b}31m\u{7f}\r\u{202e}\u{2066}\u{2028}";
/// What a file may have besides: a byte of no character, the second set as a byte, and the end of a string of C.
const BYTES: &[u8] = b"\xff\x1b[2J\x9b31m\0\x07";

/// Where an input is spoilt: in so many places, each in a run of its own.
const PLACES: usize = 5;

/// Lines of arguments for a command, without the command. `IN:name` is a spoilt copy of a material, `DIR` their
/// folder, and `BAD` a path with a hostile name.
const CASES: &[(&str, &[&str])] = &[
    ("replay", &["IN:trace", "BAD", "-m IN:mechanisms", "-m BAD"]),
    ("explain", &["IN:trace", "IN:trace --why 1", "IN:trace --format json", "BAD"]),
    ("why", &["IN:log", "IN:log --format json", "BAD", "IN:log -m IN:mechanisms", "IN:log --ops DIR/BAD/x"]),
    ("state", &["IN:state", "BAD", "IN:state --order 4 --gfp GFP_KERNEL"]),
    (
        "convert",
        &["IN:trace DIR/out.fwt --force", "BAD DIR/out.fwt", "DIR/trace BAD/x", "IN:spool DIR/out.fwt --force"],
    ),
    ("record", &["-o BAD/x -- true", "-o BAD -- BAD"]),
    ("doctor", &["BAD", "--format BAD"]),
    ("bench", &["-m IN:mechanisms", "--workload BAD", "--allocator BAD"]),
    (
        "sim",
        &[
            "SHORT --machine IN:machine",
            "SHORT --machine BAD",
            "SHORT -m IN:mechanisms",
            "SHORT --workload BAD",
            "SHORT --report BAD/x",
            "SHORT --trace-out BAD/x",
        ],
    ),
    ("sweep", &["BAD"]),
    ("sweep plan", &["SHORT --machine IN:machine -o -", "SHORT -o BAD/x", "SHORT -m IN:mechanisms -o -"]),
    ("sweep run", &["IN:plan --shard 1/1 -o -", "BAD", "DIR/plan --shard 1/1 -o BAD/x"]),
    (
        "sweep merge",
        &["IN:results", "IN:results --format csv", "IN:results --format json", "BAD", "DIR/results --plan IN:plan"],
    ),
    ("reproduce", &["BAD", "zone-lock --report BAD/x", "all --quick --bands BAD/x"]),
    ("calibrate", &["--machine IN:machine --rounds 1", "--machine BAD", "--quick --out BAD/x.toml"]),
    ("machine", &["BAD"]),
    ("machine check", &["DIR/x.txt --machine IN:machine", "DIR/x.toml --machine BAD", "BAD/x.toml", "BAD"]),
    (
        "compare",
        &[
            "IN:document DIR/document",
            "DIR/document IN:document --format mmtests",
            "IN:document DIR/document --format json",
            "IN:document DIR/document --format lkp",
            "BAD",
            "BAD=DIR/document DIR/document",
        ],
    ),
    ("stress", &["--replay IN:list", "--replay BAD", "-m IN:mechanisms", "--plant BAD", "--operations 10 --out BAD/x"]),
    ("ops", &["IN:list", "IN:list --format json", "BAD", "DIR/list -m IN:mechanisms"]),
    ("ops shrink", &["IN:list", "BAD", "DIR/list -o BAD/x"]),
    ("ops fuzz", &["--cpus BAD", "--scenarios 1 --ops 5 --cpus 2 --threads 1 -o BAD/x"]),
    ("mechanisms", &["BAD", "BAD --format json"]),
    ("proc", &["BAD", "zoneinfo --from BAD", "zoneinfo SHORT --machine IN:machine", "zoneinfo --from DIR/peer"]),
    ("proc tree", &["DIR/tree --from BAD", "BAD/x --machine generic:1x2x1 --cpus 1 --seconds 0.0002 --warm-up 0"]),
    ("top", &["--once --from BAD", "--once SHORT --machine IN:machine", "--once --from DIR/peer"]),
    ("completions", &["BAD"]),
    ("man", &["-o BAD/x"]),
];
const SHORT: &str = "--cpus 1 --seconds 0.0002 --warm-up 0 --workload page-bench01";

fn is_obeyed(c: char) -> bool {
    let others = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() && !matches!(c, '\n' | '\t') || others
}

/// What of an output a terminal would obey.
fn obeyed(output: &[u8]) -> Option<String> {
    match str::from_utf8(output) {
        Err(error) => Some(format!("{error}")),
        Ok(text) => text.chars().find(|&c| is_obeyed(c)).map(|c| format!("{c:?}")),
    }
}

/// The folder of the materials.
struct Materials {
    folder: tempfile::TempDir,
    /// A file whose name is hostile, and is no UTF-8.
    bad: PathBuf,
}

impl Materials {
    fn new() -> Materials {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut trace = Synthetic::new();
        trace.fragmented(0);
        trace.alloc(START, 0, MOVABLE).alloc(0, 9, MOVABLE).alloc(START + 1, 0, "GFP_KERNEL").free(START, 0);
        for folder in ["trace", "state", "spool"] {
            fs::create_dir(path(folder)).unwrap();
        }
        trace.write(&path("trace"));
        fs::write(path("state/zoneinfo"), trace.zoneinfo()).unwrap();
        fs::write(path("state/buddyinfo"), "Node 0, zone   Normal 1 1 1 1 1 1 1 1 1 1 7\n").unwrap();
        fs::write(path("spool/recording.json.gz"), "{\"schema\": \"framewright-spool/1\", \"page_size\": 4096}")
            .unwrap();
        let report = |name: &str| project().join("data/reports").join(name);
        fs::copy(report("23-btrfs-order4.txt"), path("log")).unwrap();
        fs::copy(project().join("data/machines/generic.toml"), path("machine")).unwrap();
        fs::write(path("mechanisms"), "preset = \"baseline\"\nfallback = \"claim-steal\"\n").unwrap();
        fs::copy(project().join("crates/framewright-ops/scripts/16-split.ops"), path("list")).unwrap();
        let bad = [b"bad".as_slice(), HOSTILE.as_bytes(), b"\xff\x9b"].concat();
        let bad = folder.path().join(OsString::from_vec(bad));
        // Files, so that nothing can be written below them.
        [&bad, &folder.path().join(HOSTILE)].into_iter().for_each(|file| fs::write(file, BYTES).unwrap());
        let new = Materials { folder, bad };
        new.make("sim SHORT --machine generic:1x2x1 --format json", Some("document"));
        new.make("sweep plan SHORT --machine generic:1x2x1 -o DIR/plan", None);
        new.make("sweep run DIR/plan --shard 1/1 -o DIR/results", None);
        new
    }

    /// Runs a command, and keeps its output.
    fn make(&self, line: &str, name: Option<&str>) {
        let line = line.replace("SHORT", SHORT).replace("DIR", &self.folder.path().display().to_string());
        let output = framewright(&line.split_whitespace().collect::<Vec<_>>()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        name.into_iter().for_each(|name| fs::write(self.folder.path().join(name), &output.stdout).unwrap());
    }

    /// A copy of a material that is spoilt in one place; a folder has each of its files spoilt so.
    fn spoilt(&self, name: &str, place: usize) -> PathBuf {
        let (from, to) = (self.folder.path().join(name), self.folder.path().join(format!("spoilt-{name}")));
        if from.is_dir() {
            let _ = fs::create_dir(&to);
            for entry in fs::read_dir(&from).unwrap().map(Result::unwrap) {
                fs::write(to.join(entry.file_name()), spoil(&fs::read(entry.path()).unwrap(), place)).unwrap();
            }
        } else {
            fs::write(&to, spoil(&fs::read(&from).unwrap(), place)).unwrap();
        }
        to
    }

    fn arguments(&self, line: &str, place: usize) -> Vec<OsString> {
        let one = |word: &str| {
            let path = match word.split_once("IN:") {
                Some(("", name)) => return self.spoilt(name, place).into_os_string(),
                _ => word.replace("DIR", &self.folder.path().display().to_string()),
            };
            match path.split_once("BAD") {
                // One that is no UTF-8 at the first place, and a word that is at the others.
                Some((before, after)) => {
                    let bad = if place == 0 { self.bad.as_os_str().as_bytes() } else { HOSTILE.as_bytes() };
                    OsString::from_vec([before.as_bytes(), bad, after.as_bytes()].concat())
                }
                None => path.into(),
            }
        };
        line.replace("SHORT", SHORT).split_whitespace().map(one).collect()
    }
}

/// A text with hostile bytes after a word: the whole text for a trace of an exact size is as short as before.
fn spoil(bytes: &[u8], place: usize) -> Vec<u8> {
    let gaps: Vec<usize> = (1..bytes.len()).filter(|&at| !bytes[at].is_ascii_alphanumeric()).collect();
    let at = gaps.get(gaps.len() * place / PLACES).copied().unwrap_or(0);
    let added = if place.is_multiple_of(2) { HOSTILE.as_bytes() } else { BYTES };
    [&bytes[..at], added, &bytes[at..]].concat()
}

#[test]
fn no_command_passes_hostile_bytes_on() {
    let materials = Materials::new();
    let peer = UnixListener::bind(materials.folder.path().join("peer")).unwrap();
    std::thread::spawn(move || {
        for asker in peer.incoming() {
            let text = format!("ok {}\nNode 0, zone {HOSTILE}\n", HOSTILE.len() + 14);
            let _ = std::io::Write::write_all(&mut asker.unwrap(), text.as_bytes());
        }
    });
    let (mut wrong, mut escaped) = (Vec::new(), 0);
    for (command, lines) in CASES {
        for (line, place) in lines.iter().flat_map(|line| (0..PLACES).map(move |place| (line, place))) {
            let mut process = framewright(&command.split_whitespace().collect::<Vec<_>>());
            process.args(materials.arguments(line, place)).current_dir(materials.folder.path());
            let output = process.env("HOME", HOSTILE).env("TERM", HOSTILE).env("SUDO_USER", HOSTILE).output().unwrap();
            for (name, stream) in [("output", &output.stdout), ("error", &output.stderr)] {
                let found = obeyed(stream);
                wrong.extend(found.map(|found| format!("{command} {line}, place {place}: {found} on the {name}")));
                let told = String::from_utf8_lossy(stream);
                assert!(!told.contains("panicked"), "{command} {line}: {told}");
                escaped +=
                    usize::from(["u001b", "u{1b}", "x1b", "u202e", "u{202e}"].iter().any(|one| told.contains(one)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Otherwise the inputs would not have come so far.
    assert!(escaped > CASES.len(), "only {escaped} outputs show a hostile text");
}

#[test]
fn every_command_has_hostile_cases() {
    let (listed, have) = (commands(), CASES.iter().map(|(command, _)| *command).collect::<Vec<_>>());
    for command in &listed {
        assert!(have.contains(&command.as_str()), "{command} has no case in CASES");
    }
    for command in have {
        assert!(listed.iter().any(|listed| listed == command), "there is no command {command}");
    }
}

/// Every option, with a hostile value: the parser of arguments quotes it. Nothing runs, because of the last argument.
#[test]
fn no_option_passes_hostile_values_on() {
    for command in [vec![String::new()], commands()].concat() {
        let help = short_help(&command);
        let options = help.lines().filter_map(|line| line.trim_start().strip_prefix('-').map(|_| line));
        let options = options.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
        let options: Vec<String> = options.map(|option| format!("{option}={HOSTILE}")).collect();
        let positional = section(&help, "Arguments:").next().map(|_| HOSTILE.to_owned());
        for argument in options.into_iter().chain(positional).chain([format!("-{HOSTILE}")]) {
            let mut process = framewright(&command.split_whitespace().collect::<Vec<_>>());
            let output = process.args([argument.as_str(), &format!("--no-{HOSTILE}")]).output().unwrap();
            assert!(!output.status.success(), "{command} {argument:?}");
            for stream in [&output.stdout, &output.stderr] {
                assert_eq!(obeyed(stream), None, "{command} {argument:?}: {:?}", String::from_utf8_lossy(stream));
            }
        }
    }
}

/// The check itself finds what it is to find.
#[test]
fn what_a_terminal_obeys_is_found() {
    for (text, found) in [("a\tb\n\u{fc}", false), ("\u{1b}", true), ("\u{202e}", true), ("\r", true), ("\u{9b}", true)]
    {
        assert_eq!(obeyed(text.as_bytes()).is_some(), found, "{text:?}");
    }
    assert!(obeyed(BYTES).is_some());
    assert!(HOSTILE.chars().all(|c| !c.is_control() || is_obeyed(c)));
    let path = Path::new("spoilt");
    assert!(
        path.is_relative() && spoil(b"a b c d e f", 2).windows(HOSTILE.len()).any(|part| part == HOSTILE.as_bytes())
    );
}
