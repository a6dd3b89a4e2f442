//! An allocator that is saved in the middle of a list and restored elsewhere goes on as if nothing had happened.

use framewright_ops::{Session, generate, with_session};

/// Returns the first difference between two machines.
fn difference(here: &Session<'_>, there: &Session<'_>) -> Result<(), String> {
    if let Some(difference) = here.snapshot().difference(&there.snapshot()) {
        return Err(difference);
    }
    (here.encounters() == there.encounters()).then_some(()).ok_or("callbacks differ".into())
}

/// Plays the list of a seed, and its rest on a second machine too.
///
/// The second machine has the configuration that the first one booted with. So it must refuse a state in which memory
/// is online that this configuration withholds.
fn play(seed: u64) -> Result<(), String> {
    let scenario = generate::scenario(seed);
    let (before, after) = scenario.steps.split_at(seed as usize % (scenario.steps.len() + 1));
    with_session(&scenario.shape, |here| {
        before.iter().try_for_each(|step| here.perform(&step.op).map(drop))?;
        here.moved(|there| {
            difference(here, there)?;
            for step in after {
                let (ours, theirs) = (here.perform(&step.op)?, there.perform(&step.op)?);
                if ours != theirs {
                    return Err(format!("`{}` gave {ours} here and {theirs} there", step.op));
                }
            }
            difference(here, there)?;
            there.check()?;
            there.give_everything_back().map(drop)
        })?;
        here.give_everything_back().map(drop)
    })
}

#[test]
fn what_follows_is_the_same() {
    let mut refused = 0;
    for seed in 0..400 {
        match play(seed) {
            Ok(()) => {}
            Err(wrong) if wrong.contains("is withheld by this configuration") => refused += 1,
            Err(wrong) => panic!("seed {seed}: {wrong}"),
        }
    }
    assert!((1..40).contains(&refused), "{refused} states were refused");
}
