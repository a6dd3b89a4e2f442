//! `linux/measure` and the reader of its files agree, and it knows the waits for locks in stacks of `perf script`.
#![allow(clippy::expect_used, reason = "a test")]

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, process};

use framewright_linux_port::faults::Measurements;
use framewright_linux_port::places;

fn script() -> PathBuf {
    places::port().join("measure")
}

/// What the script says of these stacks; `None` if it fails.
fn shares(stacks: &str) -> Option<String> {
    let path = env::temp_dir().join(format!("framewright-stacks-{}-{}", process::id(), stacks.len()));
    fs::write(&path, stacks).expect("a file");
    let output = Command::new("sh").arg(script()).arg("--stacks").arg(&path).output().expect("a shell");
    fs::remove_file(&path).expect("the file");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn waits_are_told_by_the_innermost_function_and_its_caller() {
    let zone = "_ZN11framewright4sync11queued_lock19QueuedLock$LT$M$GT$";
    let guard = "_ZN11framewright4zone10zone_guard56_$LT$impl$u20$framewright..zone..zone..Zone$LT$M$GT$$GT$";
    let stacks = [
        format!("{zone}4wait17he7bd812feab359c4E"),
        format!("{zone}11wait_shared17h573f9fa35386b2bbE"),
        format!("{guard}5guard17hdc3843da75192eceE fw_linux_alloc"),
        "native_queued_spin_lock_slowpath _raw_spin_lock rmqueue_bulk get_page_from_freelist".to_owned(),
        "native_queued_spin_lock_slowpath _raw_spin_lock_irqsave free_pcppages_bulk".to_owned(),
        "native_queued_spin_lock_slowpath _raw_spin_lock_irqsave folio_lruvec_lock_irqsave release_pages".to_owned(),
        "native_queued_spin_lock_slowpath _raw_spin_lock __pte_offset_map_lock rmqueue_bulk".to_owned(),
        "_ZN11framewright9free_path15concurrent_free23ConcurrentFree$LT$M$GT$3put17h97a35f933cc9cbd3E".to_owned(),
        "_ZN11framewright4zone10zone_guard18ZoneGuard$LT$M$GT$4free17h51ae790d121ba96aE rmqueue_bulk".to_owned(),
        "clear_page_erms rmqueue_bulk".to_owned(),
    ];
    let text: String = stacks
        .iter()
        .map(|stack| stack.split(' ').map(|name| format!("\tffffffff81000000 {name}\n")).collect::<String>() + "\n\n")
        .collect();
    assert_eq!(shares(&text).as_deref(), Some("50.00,10.00,10.00"));
    assert_eq!(shares(""), None, "no sample is no share");
}

#[test]
fn the_heading_is_the_readers() {
    let text = fs::read_to_string(script()).expect("the script");
    let part = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).expect("a part of the heading");
    let heading = format!("{},faults_per_second,{}", part("heading="), part("shares="));
    let row = "6.1.0,0.1.0,default,4,1,512,apart,4,1000000,1.00,0.00,0.00";
    let mut measured = Measurements::default();
    measured.add(format!("{heading}\n{row}\n").as_bytes()).expect("the reader takes the file");
    let columns = |line: &str| line.split(',').count();
    assert_eq!(columns(&heading), columns(row));
}
