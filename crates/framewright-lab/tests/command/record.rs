//! A recording of this machine's own kernel, where that is allowed, and what is said where it is not.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::replay_synthetic::{KERNEL, START, Synthetic};
use crate::transcript::{framewright, refused, run, shown, text, transcript};
use flate2::Compression;
use flate2::write::GzEncoder;
use framewright_lab::record::doctor::{CheckVerdict, Findings, Report, examine};
use framewright_lab::record::tracefs::EVENTS;
use framewright_trace::Trace;
use framewright_trace::record::Kind;
use rustix::process::Signal;

/// A machine where everything is well.
fn well() -> Findings {
    Findings {
        kernel: "6.18.44".to_owned(),
        cpus: 112,
        memory_kib: 263_862_272,
        uid: 0,
        may_administer: true,
        tracefs: Some("/sys/kernel/tracing".into()),
        instances: true,
        mono_clock: true,
        events: Some(vec![true; EVENTS.len()]),
        no_probe: "",
        readable: vec!["/proc/zoneinfo", "/proc/buddyinfo", "/proc/pagetypeinfo", "/proc/kpageflags"],
        lockdown: Some("[none] integrity confidentiality".to_owned()),
        perf: Some("2".to_owned()),
        huge_pages: Some("always [madvise] never".to_owned()),
        left_over: Vec::new(),
        left_probes: Vec::new(),
    }
}

fn told(found: &Findings) -> String {
    Report::new(examine(found)).to_string()
}

#[test]
fn the_doctor_of_a_machine_where_all_is_well() {
    insta::assert_snapshot!(told(&well()));
    insta::assert_snapshot!(serde_json::to_string_pretty(&Report::new(examine(&well())).checks[..2]).unwrap());
}

#[test]
fn the_doctor_of_somebody_who_is_not_root() {
    let found = Findings {
        uid: 1000,
        may_administer: false,
        instances: false,
        mono_clock: false,
        events: None,
        readable: vec!["/proc/zoneinfo", "/proc/buddyinfo"],
        ..well()
    };
    insta::assert_snapshot!(told(&found));
    let container = Findings { may_administer: false, ..well() };
    insta::assert_snapshot!(told(&container));
}

#[test]
fn the_doctor_of_a_machine_without_tracefs() {
    let found = Findings { tracefs: None, instances: false, mono_clock: false, events: None, lockdown: None, ..well() };
    insta::assert_snapshot!(told(&found));
}

#[test]
fn the_doctor_of_a_machine_that_is_locked_down() {
    let lockdown = Some("none integrity [confidentiality]".to_owned());
    let found = Findings { instances: false, mono_clock: false, events: None, lockdown, ..well() };
    let told = told(&found);
    let lines: Vec<&str> = told.lines().skip(3).take(2).collect();
    assert_eq!(
        lines,
        [
            "MISSING  events                     cannot be seen",
            "         -> needs a kernel with CONFIG_TRACING=y that is not locked down",
        ]
    );
}

#[test]
fn the_doctor_of_a_machine_that_tells_less() {
    let mut events = vec![true; EVENTS.len()];
    events[2] = false;
    let found = Findings {
        no_probe: "this kernel has none",
        events: Some(events),
        readable: vec!["/proc/zoneinfo"],
        left_over: vec!["/sys/kernel/tracing/instances/framewright-4711".into()],
        left_probes: vec!["framewright_4711/page_migrate".to_owned()],
        ..well()
    };
    insta::assert_snapshot!(told(&found));
}

/// Root needs no sudo, and in a container sudo would not help it.
#[test]
fn the_doctor_of_root_does_not_name_sudo() {
    let poor = Findings {
        tracefs: Some("/sys/kernel/tracing".into()),
        events: None,
        readable: Vec::new(),
        left_over: vec!["/sys/kernel/tracing/instances/framewright-4711".into()],
        left_probes: vec!["framewright_4711/page_migrate".to_owned()],
        ..well()
    };
    for may_administer in [true, false] {
        for tracefs in [None, poor.tracefs.clone()] {
            let found = Findings { may_administer, tracefs, ..poor.clone() };
            let root = told(&found);
            assert!(!root.contains("sudo"), "{root}");
            let user = told(&Findings { uid: 1000, ..found });
            assert!(user.contains("sudo rmdir") && user.contains("sudo tee"), "{user}");
        }
    }
}

#[test]
fn every_event_that_cannot_be_done_without_is_missed() {
    for (i, event) in EVENTS.iter().enumerate() {
        let mut events = vec![true; EVENTS.len()];
        events[i] = false;
        let report = Report::new(examine(&Findings { events: Some(events), ..well() }));
        assert_eq!(report.would_work, !event.without.is_empty(), "{event:?}");
    }
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes"), "mine").unwrap();
    let path = folder.path().display().to_string();
    let commands = [
        "doctor --format yaml",
        "doctor now",
        "record --duration 0",
        "record --duration nan",
        "record --buffer-kib 1",
        "record make",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
    if can_record() {
        let taken = transcript(folder.path(), &["record", "-o", &path, "--", "true"]);
        insta::assert_snapshot!(taken, @r"
        $ framewright record -o DIR -- true
        error: DIR is there and not empty; name another folder, or remove it
        [2]
        ");
        let nothing = folder.path().join("new").display().to_string();
        let missing = transcript(folder.path(), &["record", "-o", &nothing, "--", "no-such-program"]);
        insta::assert_snapshot!(missing, @r"
        $ framewright record -o DIR/new -- no-such-program
        error: cannot run no-such-program: No such file or directory (os error 2); name a program that the shell finds, or its path
        [2]
        ");
        assert!(!Path::new(&nothing).exists(), "what came to nothing leaves nothing behind");
        assert_eq!(own_instances(), 0);
    }
    assert_eq!(fs::read_to_string(folder.path().join("notes")).unwrap(), "mine");
}

/// A replay says by how much it is off what the kernel said at the end.
#[test]
fn free_memory_at_the_end_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Synthetic::new();
    trace.alloc(START, 0, KERNEL).alloc(START + 1, 0, KERNEL);
    trace.write(folder.path());
    let path = folder.path().display().to_string();
    let rows = || {
        let output = transcript(folder.path(), &["replay", &path]);
        let rows = output.lines().skip_while(|line| !line.starts_with("frames free")).take(2);
        rows.map(|row| row.to_owned() + "\n").collect::<String>()
    };
    assert_eq!(rows(), "", "nothing is said where nothing was recorded");
    fs::create_dir(folder.path().join("after")).unwrap();
    fs::write(folder.path().join("after/zoneinfo"), trace.zoneinfo()).unwrap();
    insta::assert_snapshot!(rows());
    fs::write(folder.path().join("after/zoneinfo"), "Node 0, zone DMA\n").unwrap();
    assert_eq!(run(&["replay", &path]).status.code(), Some(2), "a file that is there must be right");
}

/// A spool that a recorder kept, with a page of one free.
fn spool(folder: &Path) {
    let free = "name: mm_page_free\nID: 1\nformat:\nfield:unsigned short common_type; offset:0; size:2; signed:0;\n\
                field:int common_pid; offset:4; size:4; signed:1;\nfield:unsigned long pfn; offset:8; size:8; signed:0;\n\
                field:unsigned int order; offset:16; size:4; signed:0;";
    let header = "field: u64 timestamp; offset:0; size:8; signed:0;\nfield: local_t commit; offset:8; size:8; signed:1;\n\
                  field: char data; offset:16; size:4080; signed:0;";
    let kept = serde_json::json!({
        "schema": "framewright-spool/1", "page_size": 4096, "header_page": header, "formats": [free],
        "cpus": [[0, false]], "tasks": [[1, "init"]], "state": {}, "flags": null, "start": 5, "lost": 0,
    });
    let event = [&6_u32.to_le_bytes()[..], &1_u64.to_le_bytes(), &10_u64.to_le_bytes(), &[0; 8]].concat();
    let mut page = [&10_u64.to_le_bytes()[..], &(event.len() as u64).to_le_bytes(), &event].concat();
    page.resize(4096, 0);
    fs::create_dir(folder).unwrap();
    for (name, bytes) in [("recording.json.gz", kept.to_string().into_bytes()), ("cpu0.gz", page)] {
        let mut out = GzEncoder::new(fs::File::create(folder.join(name)).unwrap(), Compression::fast());
        out.write_all(&bytes).unwrap();
        out.finish().unwrap();
    }
}

/// What a full disk kept becomes a trace where there is room.
#[test]
fn a_kept_spool_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    spool(&folder.path().join("spool"));
    let mut seen = shown(folder.path(), "convert DIR/spool DIR/trace.fwt");
    seen += &shown(folder.path(), "convert DIR/spool DIR/trace.fwt");
    fs::remove_file(folder.path().join("spool/cpu0.gz")).unwrap();
    seen += &shown(folder.path(), "convert DIR/spool DIR/other.fwt");
    insta::assert_snapshot!(seen);
    assert_eq!(Trace::open(&folder.path().join("trace.fwt")).unwrap().map(Result::unwrap).count(), 1);
}

/// Whether this machine lets itself be recorded; says so loudly if not.
fn can_record() -> bool {
    let found = Findings::gather();
    let missing = examine(&found).into_iter().find(|check| check.verdict == CheckVerdict::Missing);
    if let Some(check) = missing {
        eprintln!("SKIPPED: no recording of this machine: {}: {}; {}", check.name, check.found, check.remedy);
        return false;
    }
    true
}

/// What recorders that are no more left behind.
fn own_instances() -> usize {
    let found = Findings::gather();
    found.left_over.len() + found.left_probes.len()
}

/// Runs a recording with an exit code, and looks at the trace.
#[test]
fn a_recording_is_replayed_and_explained() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r").display().to_string();
    // A hundred programs, each with its own page tables and memory.
    let script = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done; exit 7";
    let output = run(&["record", "-o", &path, "--", "sh", "-c", script]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{told}");
    assert!(told.contains("ended with code 7") && told.contains(&format!("framewright replay {path}")), "{told}");
    assert!(output.stdout.is_empty(), "the output is the command's");
    assert!(!Path::new(&path).join("spool").exists());

    let mut trace = Trace::open(Path::new(&path)).unwrap();
    let (mut allocs, mut frees, mut time) = (0, 0, 0);
    for record in trace.by_ref() {
        let record = record.unwrap();
        assert!(record.time >= time, "CPUs are merged by time");
        time = record.time;
        allocs += u64::from(matches!(record.kind, Kind::Alloc { pfn: Some(_), .. }));
        frees += u64::from(matches!(record.kind, Kind::Free { .. }));
    }
    assert!(allocs > 1000 && frees > 1000, "{allocs} allocations, {frees} frees of a hundred programs");
    assert!(
        (0..trace.comms().len() as u32).any(|id| trace.comms().name(framewright_trace::record::CommId(id)) == "true")
    );
    assert!(trace.initial().zoneinfo.is_some() && trace.after().unwrap().zoneinfo.is_some());

    let replayed = run(&["replay", &path, "--format", "json"]);
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stderr));
    let report: serde_json::Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(report["framewright"]["frees_refused"], 0);
    assert_eq!(report["framewright"]["pages_conserved"], true);
    assert!(report["free_recorded"]["free_frames"].as_u64().unwrap() > 0);
    let explained = run(&["explain", &path]);
    assert_eq!(explained.status.code(), Some(0), "{}", text(&explained.stderr));
    assert_eq!(own_instances(), 0);
}

/// Signals that ask a program to end leave neither an instance behind nor nothing recorded.
#[test]
fn an_interrupted_recording_is_kept() {
    if !can_record() {
        return;
    }
    // A shell has what it starts in the background ignore SIGINT, and so do we.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::QUIT, 131), (Signal::HUP, 129), (Signal::TERM, 143)] {
        if ignored >> (signal.as_raw() - 1) & 1 == 0 {
            interrupt(signal, code);
        } else {
            eprintln!("SKIPPED: {signal:?}, which whoever started this test has it ignore");
        }
    }
}

fn interrupt(signal: Signal, code: i32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let started = folder.path().join("started");
    let script = format!("ulimit -c 0; touch {}; exec sleep 1000", started.display());
    let mut child = Command::new(env!("CARGO_BIN_EXE_framewright"))
        .args(["record", "--inner", "-o", &path.display().to_string(), "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    while !started.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the recording ended early");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code), "the code of a command that was interrupted");
    let records = Trace::open(&path).unwrap().map(Result::unwrap).count();
    assert!(records > 0);
    assert!(!Path::new("/sys/kernel/tracing/instances").join(format!("framewright-{}", child.id())).exists());
}

/// The command's code is ours although nobody reads what we say.
#[test]
fn nobody_has_to_listen() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r").display().to_string();
    let mut command = framewright(&["record", "-o", &path, "--", "sh", "-c", "exit 7"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

/// The user that `sudo` names in these tests.
const CALLER: u32 = 54_321;

/// Records a script, as if a user had called `sudo`. Returns what the script printed, and what was told.
fn record_for_caller(folder: &Path, options: &[&str], script: &str) -> (String, String) {
    let path = folder.join("r").display().to_string();
    let arguments = [&["record", "-o", &path], options, &["--", "sh", "-c", script]].concat();
    let mut command = framewright(&arguments);
    command.env("SUDO_UID", CALLER.to_string()).env("SUDO_GID", CALLER.to_string());
    let output = command.output().unwrap();
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    (text(&output.stdout), told)
}

/// The command has the rights of the user that called sudo, and the recording is that user's alone.
#[test]
fn a_command_runs_as_the_user_that_called_sudo() {
    if !can_record() {
        return;
    }
    let rights = "id -u; id -G; echo ${SUDO_UID-none}";
    for (options, expected) in [(&[][..], "54321\n54321\nnone\n"), (&["--as-root"], "0\n")] {
        let folder = tempfile::tempdir().unwrap();
        let (said, told) = record_for_caller(folder.path(), options, rights);
        assert!(said.starts_with(expected), "{said}");
        let note = "the command runs as user 54321, who called sudo; --as-root runs it as root\n";
        assert_eq!(told.starts_with(note), options.is_empty(), "{told}");
        for (name, mode) in [("r", 0o700), ("r/trace.fwt", 0o600), ("r/after", 0o700), ("r/after/zoneinfo", 0o600)] {
            let found = fs::symlink_metadata(folder.path().join(name)).unwrap();
            assert_eq!((found.uid(), found.permissions().mode() & 0o777), (CALLER, mode), "{name}");
        }
    }
}

/// A command that puts a link in the recording's place gets nothing written or given to it through the link.
#[test]
fn a_command_cannot_send_a_recording_elsewhere() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("victim")).unwrap();
    fs::write(folder.path().join("victim/precious"), "precious").unwrap();
    let script = format!("cd {} && mv r moved && ln -s victim r", folder.path().display());
    record_for_caller(folder.path(), &["--as-root"], &script);
    let owner = |name: &str| fs::symlink_metadata(folder.path().join(name)).unwrap().uid();
    assert_eq!(["victim", "victim/precious", "moved", "moved/trace.fwt"].map(owner), [0, 0, CALLER, CALLER]);
    assert_eq!(fs::read_dir(folder.path().join("victim")).unwrap().count(), 1);
}

/// What is over is over, also for a command that does not hear.
#[test]
fn a_command_that_does_not_end_is_killed() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r").display().to_string();
    let script = "trap '' TERM; while :; do sleep 0.1; done";
    let output = run(&["record", "-o", &path, "--duration", "0.5", "--", "sh", "-c", script]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let warnings: Vec<&str> = told.lines().filter(|line| line.contains("WARNING")).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"  WARNING: the command did not end by SIGTERM, so SIGKILL ended it");
    assert_eq!(own_instances(), 0);
}

/// On a disk of 12 MiB, which the command fills.
#[test]
fn a_full_disk_cuts_a_recording_short() {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=12m none {}", folder.path().display());
    // A namespace of its own, so that nothing is mounted when this is over.
    let in_namespace = |script: String| Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
    if !can_record() || !in_namespace(mount.clone()).is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: nothing can be mounted here");
        return;
    }
    let (program, path) = (env!("CARGO_BIN_EXE_framewright"), folder.path().display());
    let script = format!(
        "{mount} && {program} record -o {path}/r -- sh -c 'cat /dev/zero >{path}/fill; while :; do /bin/true; done'; \
         echo [$?]; ls {path}/r; {program} replay {path}/r | head -n 2"
    );
    let output = in_namespace(script).unwrap();
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(said.starts_with("[2]\nafter\ntrace.fwt\nTrace ") && said.contains(" events: "), "{said}{told}");
    assert!(told.contains(", cut short\n") && told.contains("WARNING: the trace ends early: "), "{told}");
    assert_eq!(own_instances(), 0);
}
