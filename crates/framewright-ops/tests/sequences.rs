//! Generated operations against the oracle, `validate` after each.
//!
//! 10,000 sequences of 50 to 100 operations on machines of all kinds. The same ones every time; `FRAMEWRIGHT_SEED=n` draws
//! others, `FRAMEWRIGHT_CASES=n` so many. A failing sequence is shrunk and shown as the text of a `.ops` file. In four
//! parts, because tests run in parallel and sequences do not depend on each other.

use framewright_ops::run;
use framewright_ops::strategy::Scenarios;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

const CASES: u32 = 10_000;
const PARTS: u32 = 4;

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number that fits")))
}

/// Runs one part of the sequences.
fn part(number: u32) {
    let cases = from_environment("FRAMEWRIGHT_CASES").unwrap_or(CASES).div_ceil(PARTS);
    let seed: u64 = from_environment("FRAMEWRIGHT_SEED").unwrap_or(0);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    let config = Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(&Scenarios, |scenario| {
        run(&scenario).map(drop).map_err(|failure| TestCaseError::fail(failure.to_string()))
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("part {number} of seed {seed}: {reason}"),
        Err(TestError::Abort(reason)) => panic!("part {number} of seed {seed} gave up: {reason}"),
    }
}

#[test]
fn sequences_agree_with_the_oracle_1() {
    part(1);
}

#[test]
fn sequences_agree_with_the_oracle_2() {
    part(2);
}

#[test]
fn sequences_agree_with_the_oracle_3() {
    part(3);
}

#[test]
fn sequences_agree_with_the_oracle_4() {
    part(4);
}
