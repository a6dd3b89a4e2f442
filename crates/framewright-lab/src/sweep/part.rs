//! The cells of a plan that a process runs: its options name them, or its scheduler does.
//!
//! Shard K of N gets every N-th cell in the order of their hashes, from the K-th on. Hashes are independent of a cell's
//! run time, so no shard gets all the large machines, as it would by counting through a product.
//!
//! | scheduler | variables | shard |
//! |---|---|---|
//! | Slurm, an array | `SLURM_ARRAY_TASK_ID`, `_MIN`, `_STEP`, `_COUNT` | (ID−MIN)/STEP + 1 of COUNT, or ID + 1 of N |
//! | Slurm, `srun` | `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` or `SLURM_NTASKS` | PROCID + 1 of NTASKS |
//! | Kubernetes, an indexed Job | `JOB_COMPLETION_INDEX` | INDEX + 1 of N |
//! | GNU parallel | `PARALLEL_SEQ` | SEQ of N |
//!
//! N is that of `--of N`. GNU parallel's slot is no shard: jobs follow each other in it. The script of a Slurm batch
//! job has a process number too, 0, and no process beside it: `SLURM_STEP_ID` says whether there are others.

use std::fmt;

use anyhow::{Context, bail};

use super::plan::SweepPlan;

/// Cells of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// One, by its index.
    Cell(usize),
    /// One of a number of parts, counted from 1.
    Shard {
        /// Which.
        shard: usize,
        /// Of how many.
        of: usize,
    },
}

/// All of them.
pub const ALL: Part = Part::Shard { shard: 1, of: 1 };

/// Looks up a variable of the environment.
pub type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

impl Part {
    /// A shard, if there is such.
    ///
    /// # Errors
    /// Its number is not from 1 to the number of them.
    pub fn shard(shard: usize, of: usize) -> anyhow::Result<Part> {
        if shard == 0 || shard > of {
            bail!("there is no shard {shard} of {of}: they are counted from 1 to {of}");
        }
        Ok(Part::Shard { shard, of })
    }

    /// The indices of its cells, in the plan's order.
    ///
    /// # Errors
    /// The plan has no cell of that index.
    pub fn cells(self, plan: &SweepPlan) -> anyhow::Result<Vec<usize>> {
        let all = plan.cells.len();
        match self {
            Part::Cell(index) if index < all => Ok(vec![index]),
            Part::Cell(index) => bail!("there is no cell {index}: the plan has cells 0 to {}", all - 1),
            Part::Shard { shard, of } => {
                let mut ranked: Vec<usize> = (0..all).collect();
                ranked.sort_by_key(|index| &plan.cells[*index].0);
                let mut own: Vec<usize> = ranked.into_iter().skip(shard - 1).step_by(of).collect();
                own.sort_unstable();
                Ok(own)
            }
        }
    }

    /// The shard by the scheduler's variables, and their names; none without a scheduler. `of` is the number of shards
    /// where it does not tell.
    ///
    /// # Errors
    /// A variable that is no number, one that does not fit the others, or two schedulers.
    pub fn told(variables: Variables<'_>, of: Option<usize>) -> anyhow::Result<Option<(Part, String)>> {
        let parts = [slurm(variables, of)?, counted(variables, of, ("JOB_COMPLETION_INDEX", 0))?];
        let mut told = parts.into_iter().flatten().chain(counted(variables, of, ("PARALLEL_SEQ", 1))?);
        match (told.next(), told.next()) {
            (Some((_, first)), Some((_, second))) => {
                bail!("both {first} and {second} say which shard this is: say so with --shard K/N or --index I")
            }
            (None, _) if of.is_some() => bail!(
                "--of is the number of shards where SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX or PARALLEL_SEQ says which, and \
                 none of them is set: use --shard K/N"
            ),
            (told, _) => Ok(told),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Cell(index) => write!(f, "cell {index}"),
            Part::Shard { of: 1, .. } => f.write_str("all cells"),
            Part::Shard { shard, of } => write!(f, "shard {shard} of {of}"),
        }
    }
}

/// A number from the environment.
fn number(variables: Variables<'_>, name: &str) -> anyhow::Result<Option<usize>> {
    let Some(text) = variables(name) else { return Ok(None) };
    let number = text.trim().parse().ok();
    Ok(Some(number.with_context(|| format!("{name} is {text:?}, and no number: use --shard K/N or --index I"))?))
}

/// A scheduler that counts its jobs from `first` on and does not say how many there are.
fn counted(
    variables: Variables<'_>,
    of: Option<usize>,
    (name, first): (&str, usize),
) -> anyhow::Result<Option<(Part, String)>> {
    let Some(value) = number(variables, name)? else { return Ok(None) };
    let told = format!("{name}={value}");
    let Some(of) = of else {
        bail!(
            "{told} says which shard this is, but not of how many: add --of N, or --shard K/N or --index I; \
             --shard 1/1 is all cells"
        );
    };
    let shard = value.saturating_add(1).saturating_sub(first);
    Ok(Some((Part::shard(shard, of).with_context(|| told.clone())?, told)))
}

/// Tasks of an array, processes of a step, or both.
fn slurm(variables: Variables<'_>, of: Option<usize>) -> anyhow::Result<Option<(Part, String)>> {
    let array = array(variables, of)?;
    let step = match (number(variables, "SLURM_PROCID")?, number(variables, "SLURM_STEP_NUM_TASKS")?) {
        // Only a job has a number, and only what `srun` started has a step.
        (Some(_), _) if variables("SLURM_JOB_ID").is_some() && variables("SLURM_STEP_ID").is_none() => None,
        (Some(process), Some(tasks)) => Some((process, tasks)),
        (Some(process), None) => number(variables, "SLURM_NTASKS")?.map(|tasks| (process, tasks)),
        (None, _) => None,
    };
    let step = step.filter(|(_, tasks)| *tasks > 1);
    if let (None, Some((_, tasks)), Some(of)) = (&array, step, of) {
        bail!("--of {of}, but SLURM_PROCID is one of {tasks}: leave --of out, or use --shard K/N");
    }
    if let Some((process, tasks)) = step {
        Part::shard(process.saturating_add(1), tasks).with_context(|| format!("SLURM_PROCID={process}"))?;
    }
    let step_told = step.map(|(process, tasks)| format!("SLURM_PROCID={process} of {tasks}"));
    let (shard, of, told) = match (array, step) {
        (None, None) => return Ok(None),
        (Some(array), None) => array,
        (None, Some((process, tasks))) => (process + 1, tasks, step_told.unwrap_or_default()),
        (Some((shard, of, told)), Some((process, tasks))) => {
            let whole = of.checked_mul(tasks);
            let whole = whole.with_context(|| format!("{told}: {of} times {tasks} shards are too many"))?;
            ((shard - 1) * tasks + process + 1, whole, format!("{told} and {}", step_told.unwrap_or_default()))
        }
    };
    Ok(Some((Part::shard(shard, of).with_context(|| told.clone())?, told)))
}

/// Which task of the array, and of how many.
fn array(variables: Variables<'_>, of: Option<usize>) -> anyhow::Result<Option<(usize, usize, String)>> {
    let Some(task) = number(variables, "SLURM_ARRAY_TASK_ID")? else { return Ok(None) };
    let told = format!("SLURM_ARRAY_TASK_ID={task}");
    if let Some(of) = of {
        Part::shard(task.saturating_add(1), of).with_context(|| told.clone())?;
        return Ok(Some((task + 1, of, told)));
    }
    let least = number(variables, "SLURM_ARRAY_TASK_MIN")?;
    let count = number(variables, "SLURM_ARRAY_TASK_COUNT")?;
    let (Some(least), Some(count)) = (least, count) else {
        bail!("{told} says which shard this is, but SLURM_ARRAY_TASK_MIN and _COUNT are not set: add --of N");
    };
    let step = number(variables, "SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
    let shard = task.checked_sub(least).filter(|far| far % step == 0).map(|far| far / step + 1);
    match shard.filter(|shard| *shard <= count) {
        Some(shard) => Ok(Some((shard, count, told))),
        None => bail!(
            "{told} is not one of {count} from {least} in steps of {step}: number the array from 0 to N-1 and add --of N"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shard that `framewright sweep run` would take, or its error.
    fn told(variables: &str, of: Option<usize>) -> String {
        let lookup = |name: &str| {
            let mut known = variables.split_whitespace().filter_map(|word| word.split_once('='));
            known.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        };
        match Part::told(&lookup, of) {
            Ok(None) => "-".to_owned(),
            Ok(Some((part, words))) => format!("{part} ({words})"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn schedulers_tell_the_shard() {
        let array = "SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_STEP=2 SLURM_ARRAY_TASK_COUNT=4";
        let step = "SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 SLURM_NTASKS=8";
        let both = format!("{array} {step}");
        let cases = [
            ("", None, "-"),
            (array, None, "shard 3 of 4 (SLURM_ARRAY_TASK_ID=5)"),
            (array, Some(8), "shard 6 of 8 (SLURM_ARRAY_TASK_ID=5)"),
            (step, None, "shard 2 of 3 (SLURM_PROCID=1 of 3)"),
            ("SLURM_PROCID=0 SLURM_NTASKS=2", None, "shard 1 of 2 (SLURM_PROCID=0 of 2)"),
            // The script of a batch job, which runs alone.
            ("SLURM_JOB_ID=9 SLURM_PROCID=0 SLURM_NTASKS=8", None, "-"),
            ("SLURM_PROCID=0 SLURM_NTASKS=1", None, "-"),
            (&both, None, "shard 8 of 12 (SLURM_ARRAY_TASK_ID=5 and SLURM_PROCID=1 of 3)"),
            ("JOB_COMPLETION_INDEX=0", Some(4), "shard 1 of 4 (JOB_COMPLETION_INDEX=0)"),
            ("PARALLEL_SEQ=4 PARALLEL_JOBSLOT=1", Some(4), "shard 4 of 4 (PARALLEL_SEQ=4)"),
        ];
        for (variables, of, expected) in cases {
            assert_eq!(told(variables, of), expected, "{variables}");
        }
    }

    #[test]
    fn what_does_not_tell_is_refused() {
        let cases = [
            ("JOB_COMPLETION_INDEX=3", None),
            ("PARALLEL_SEQ=3", None),
            ("PARALLEL_SEQ=0", Some(4)),
            ("JOB_COMPLETION_INDEX=4", Some(4)),
            ("JOB_COMPLETION_INDEX=four", Some(4)),
            ("JOB_COMPLETION_INDEX=1 PARALLEL_SEQ=1", Some(4)),
            ("SLURM_ARRAY_TASK_ID=1", None),
            ("SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_COUNT=2", None),
            (
                "SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_COUNT=18446744073709551615 SLURM_PROCID=0 \
                 SLURM_NTASKS=2",
                None,
            ),
            ("SLURM_PROCID=2 SLURM_NTASKS=2", None),
            ("SLURM_PROCID=1 SLURM_NTASKS=2", Some(3)),
            ("SLURM_ARRAY_TASK_ID=18446744073709551615", Some(3)),
            ("", Some(3)),
        ];
        let refused = |(variables, of)| format!("{variables} {of:?}\n    {}\n", told(variables, of));
        insta::assert_snapshot!(cases.map(refused).concat());
    }
}
