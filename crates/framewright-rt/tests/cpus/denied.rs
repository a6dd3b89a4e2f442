//! Denials of a sandbox: restartable sequences and the memory barrier. Slower ways are taken, or the refusal is
//! reported.
//!
//! The test runs itself again as a process of its own, which denies itself the system calls.

use std::process::Command;

use framewright::request::GFP_KERNEL;
use framewright::units::{NodeId, Order};
use framewright::{Allocator, Config, Layout, Region, Request};
use framewright_rt::{CpuMode, Native, RseqUnavailable, Storage};

use crate::alone;

const NODES: [NodeId; 3] = [NodeId(0); 3];
/// Names the second process' denials.
const DENY: &str = "FRAMEWRIGHT_TEST_DENY";

/// Runs one test of this file again where `denied` is set, and without the C library's registration of sequences.
fn again(test: &str, denied: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&alone::name(module_path!(), test), "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(DENY, denied).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Denies this process some system calls from now on. False if that is denied as well.
fn deny(calls: &[libc::c_long]) -> bool {
    let step = |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let load_number = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    let allow = step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW);
    let refuse = step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    // Number, one comparison for each call that jumps to the end, allow, refuse.
    let mut program = vec![load_number];
    for (index, &call) in calls.iter().enumerate() {
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (calls.len() - index) as u8, call as u32));
    }
    program.extend([allow, refuse]);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is there as long as the calls take.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    }
}

/// Threads that allocate, and one that drains them.
fn play(machine: Native) {
    let map = [Region::usable(0x100000, 0x110000, 0)];
    let cpus = machine.nodes().to_vec();
    let config = Config::new(&map, &cpus);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(machine, &config, storage.parts()).unwrap();
    let before = pages.validate().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
                    pages.free(page, Order(0)).unwrap();
                }
            });
        }
        (0..50).for_each(|_| assert!(pages.drain_all() <= 0x10000));
    });
    pages.drain_all();
    assert_eq!(pages.validate().unwrap(), before);
}

#[test]
fn both_denied() {
    if std::env::var_os(DENY).is_none() {
        return again("both_denied", "both");
    }
    if !deny(&[libc::SYS_rseq, libc::SYS_membarrier]) {
        return eprintln!("not tested: no filter for system calls");
    }
    let refused = Native::per_cpu(1).unwrap_err();
    assert_eq!(refused, RseqUnavailable::Refused(libc::EPERM));
    let machine = Native::auto(1, &NODES);
    assert_eq!((machine.mode(), machine.has_light_fence()), (CpuMode::Lease, false));
    play(machine);
}

/// The C library registers nothing, so the threads do.
#[test]
fn the_library_does_not_register() {
    if std::env::var_os(DENY).is_none() {
        return again("the_library_does_not_register", "library");
    }
    match Native::per_cpu(1) {
        Ok(machine) => play(machine),
        Err(error) => eprintln!("not tested: {error}"),
    }
}

/// Denied when machines rely on it already.
#[test]
fn the_barrier_is_denied_later() {
    if std::env::var_os(DENY).is_none() {
        return again("the_barrier_is_denied_later", "later");
    }
    let machine = Native::new(&NODES);
    if machine.has_light_fence() && deny(&[libc::SYS_membarrier]) {
        play(machine);
    }
}

#[test]
fn full_fences_on_request() {
    let machine = Native::new(&NODES).with_full_fences();
    assert!(!machine.has_light_fence());
    play(machine);
}

#[test]
fn refusals_say_why() {
    let refused = RseqUnavailable::Refused(libc::EPERM).to_string();
    assert!(refused.starts_with("the kernel does not register restartable sequences: Operation not permitted"));
    assert!(RseqUnavailable::Architecture.to_string().ends_with("for this architecture"));
}
