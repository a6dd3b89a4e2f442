//! The example runs, and the host has less memory after each step that says so.

#[path = "../../examples/guest.rs"]
#[expect(dead_code, reason = "an example's main is not called here")]
mod guest;

#[test]
fn the_guest_of_the_example_reports_and_has_a_balloon() {
    let mut out = Vec::new();
    guest::run(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("regions: 64 MiB, 32 MiB, 32 MiB\n"), "{text}");
    let steps = text.lines().filter_map(|line| line.strip_suffix(" KiB resident"));
    let resident: Vec<u64> = steps.map(|step| step.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    let &[start, _, written, freed, ballooned, reported, deflated] = &resident[..] else { panic!("{text}") };
    assert!(start == 0 && written >= 64 << 10 && freed == written, "{text}");
    // The balloon has 80 MiB of 111 that are free, 48 of which were written to; all the rest is reported.
    assert!(ballooned <= freed - (16 << 10) && reported <= freed - (46 << 10) && deflated == reported, "{text}");
    assert!(text.contains("\n4096 pages that the guest kept are as it wrote them\n"), "{text}");
}
