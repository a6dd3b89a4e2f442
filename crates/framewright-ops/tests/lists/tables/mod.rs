//! What each operation does to the free lists, case by case.
//!
//! A [`Case`] is a machine, the operations that bring it into a state, that state, the operations under test with what
//! must come of them, and the state afterwards. States are rows of `/proc/pagetypeinfo` (free blocks of one zone and
//! type, by order from 0) and of per-CPU counts; a row that is not written is all zeros, so that nothing goes
//! unnoticed.

mod boost;
mod buddy;
mod compaction;
mod fallback;
mod free_paths;
mod nodes;
mod owned;
mod pcp;
mod ranges;
mod reserves;
mod tuned;

use std::collections::BTreeSet;

use framewright_ops::session::with_session;
use framewright_ops::{Row, Scenario};

/// One row of a table; see the module's description.
struct Case {
    name: &'static str,
    /// The machine, as a scenario describes it.
    machine: &'static str,
    /// What happens before.
    setup: &'static str,
    before: &'static str,
    /// What is tested.
    ops: &'static str,
    after: &'static str,
}

/// Zone Normal of 64 frames, blocks of up to 16, pageblocks of 4; per-CPU lists that keep nothing.
const SMALL: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0\n\
                     dma-end 0x0\ndma32-end 0x0\nmarks 0 Normal 0 0 0\npcp 0 Normal 1 1\n";

/// The rows of a state, the zeros left out.
fn rows(text: &str) -> BTreeSet<Row> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let rows = lines.map(|line| line.parse().unwrap_or_else(|reason| panic!("{line}: {reason}")));
    rows.filter(|row: &Row| !row.is_zero()).collect()
}

fn text(rows: &BTreeSet<Row>) -> String {
    rows.iter().map(|row| format!("    {row}\n")).collect()
}

impl Case {
    /// What is wrong, if anything, on the machine with these lines added.
    fn check(&self, more: &str) -> Result<(), String> {
        let parse = |ops: &str| {
            let scenario: Result<Scenario, _> = format!("{}\n{more}{ops}", self.machine).parse();
            scenario.unwrap_or_else(|error| panic!("{}: {error}", self.name))
        };
        let setup = parse(self.setup).steps.len();
        let scenario = parse(&format!("{}\n{}", self.setup, self.ops));
        with_session(&scenario.shape, |session| {
            let state = |when, wanted: &str| {
                let (wanted, found) = (rows(wanted), session.rows().into_iter().collect());
                let differ = || Err(format!("{when}:\n{}should be:\n{}", text(&found), text(&wanted)));
                if found == wanted { Ok(()) } else { differ() }
            };
            for (index, step) in scenario.steps.iter().enumerate() {
                if index == setup {
                    state("before", self.before)?;
                }
                let outcome = session.perform(&step.op).map_err(|wrong| format!("`{}`: {wrong}", step.op))?;
                session.check().map_err(|wrong| format!("after `{}`: {wrong}", step.op))?;
                match &step.expected {
                    Some(expected) if !expected.fits(&outcome) => {
                        return Err(format!("`{}` -> {outcome}, should be {expected}", step.op));
                    }
                    _ => {}
                }
            }
            state("after", self.after)?;
            session.check_frames()?;
            session.give_everything_back().map(drop)
        })
    }
}

/// Checks every case and tells of all that are wrong.
///
/// When sections are put on the free lists makes no difference, nor what was in the memory of the descriptors.
fn check(cases: &[Case]) {
    let machines = ["", "sections when-used\n", "sections when-used\ndescriptors dirty\n", "descriptors dirty\n"];
    let all = cases.iter().flat_map(|case| machines.map(|more| (case, more)));
    let wrong: Vec<String> =
        all.filter_map(|(case, more)| Some(format!("{}\n{more}{}", case.name, case.check(more).err()?))).collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}
