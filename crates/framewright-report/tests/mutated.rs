//! Mutated reports: nothing panics, an answer has at most 25 lines, and reading takes bounded memory.
//!
//! `MUTATIONS=1000000 cargo test --release -p framewright-report --test mutated` tries a million.

use std::fmt::Write;

use framewright_ops::rng::Rng;
use framewright_report::answer::answer;
use framewright_report::read::{Reader, reports};
use framewright_report::report::Report;

const SEEDS: [&str; 4] = [
    include_str!("samples/failure-6.1.txt"),
    include_str!("samples/oom-3.10.txt"),
    include_str!("samples/failure-2.6.32.txt"),
    include_str!("samples/sysrq-6.12.txt"),
];

/// Tokens of the formats, which a mutation puts anywhere.
const TOKENS: [&str; 24] = [
    "Node 0 DMA free:4kB min:99999999999999999999kB low:0kB high:0kB\n",
    "Node 4294967295 Normal free:",
    "DMA32: 1*4kB (UMEHCI) 18446744073709551615*8kB",
    "lowmem_reserve[]: -1 99999999999999999999 3",
    "Mem-Info:\n",
    "x: page allocation failure: order:63, mode:0xffffffff\n",
    "y invoked oom-killer: gfp_mask=0x0, order=-1, oom_score_adj=0\n",
    "nodemask=0-1023,5-3,",
    "mems_allowed=0-4294967295",
    "free_pcp:18446744073709551615kB",
    "managed:0kB",
    "#012",
    "&amp;lt;",
    "=\n",
    "\r",
    "\u{0}",
    "\x1b[31m",
    "\u{20ac}",
    "[  C7] ",
    "[ T12]Node 0 ",
    "1*1024kB 1*3kB",
    "CPU    0: hi:  186, btch:  31 usd: 99999999999999999999",
    "(",
    "kernel: ",
];

fn mutated(rng: &mut Rng) -> String {
    let mut text: Vec<char> = SEEDS[rng.below(SEEDS.len() as u64) as usize].chars().collect();
    for _ in 0..=rng.below(12) {
        let at = rng.below(text.len() as u64 + 1) as usize;
        let end = (at + rng.below(80) as usize).min(text.len());
        match rng.below(7) {
            0 => drop(text.drain(at..end)),
            1 => {
                let copied: Vec<char> = text[at..end].to_vec();
                let to = rng.below(text.len() as u64 + 1) as usize;
                text.splice(to..to, copied);
            }
            2 if at < text.len() => text[at] = char::from(rng.below(128) as u8),
            3 => {
                let number = rng.below(u64::MAX) >> rng.below(64);
                text.splice(at..at, number.to_string().chars());
            }
            4 => text.insert(at, '\n'),
            5 if !text.is_empty() => text.truncate(at.max(1)),
            _ => {
                let token = TOKENS[rng.below(TOKENS.len() as u64) as usize];
                text.splice(at..at, token.chars());
            }
        }
    }
    text.into_iter().collect()
}

fn check(report: &Report) {
    let answer = answer(report);
    let text = answer.to_string();
    assert!(text.lines().count() <= 25, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn mutations_end_with_an_answer() {
    let cases = std::env::var("MUTATIONS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000);
    let mut rng = Rng::new(31);
    for _ in 0..cases {
        reports(&mutated(&mut rng)).iter().for_each(check);
    }
}

#[test]
fn a_log_without_an_end_takes_bounded_memory() {
    let (mut reader, mut ended) = (Reader::default(), Vec::new());
    let mut line = String::new();
    let mut most = 0;
    // Zones, blocks and callers that never repeat, and a head that goes on and on.
    for number in 0..40_000 {
        line.clear();
        let _ = write!(line, "[ T{number}] Node {number} DMA free:4kB min:4kB low:4kB high:4kB");
        reader.add(&line, &mut ended);
        line.clear();
        let _ = write!(line, "Node {} Normal per-cpu:", number % 900);
        reader.add(&line, &mut ended);
        reader.add("CPU 0: hi: 186, btch: 31 usd: 1", &mut ended);
        reader.add("nodemask=0 order=0 mode:", &mut ended);
        most = most.max(ended.iter().map(|report| report.memory.zones.len() + report.unread.len()).sum::<usize>());
        ended.clear();
    }
    reader.finish(&mut ended);
    assert!(most <= 4_096 + 16, "{most}");
}
