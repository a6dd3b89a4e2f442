//! The table of results, by folder or file.

use std::collections::{BTreeMap, HashMap};

use crate::argued::By;
use crate::mutant::Key;
use crate::results::Verdict;

/// Counts of a row.
#[derive(Clone, Copy, Default)]
struct Row {
    mutants: usize,
    verdicts: [usize; Verdict::ALL.len()],
    /// Neither killed nor to be: the list argues them.
    argued: usize,
    left: usize,
}

impl Row {
    fn of(&self, verdict: Verdict) -> usize {
        Verdict::ALL.iter().position(|&one| one == verdict).map_or(0, |at| self.verdicts[at])
    }

    fn killed(&self) -> usize {
        self.of(Verdict::Killed) + self.of(Verdict::Timeout)
    }

    fn print(&self, name: &str) {
        let judged = self.mutants - self.left - self.argued;
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = 100.0 * self.killed() as f64 / judged.max(1) as f64;
        println!(
            "{name:<34} {:>7} {:>7} {:>7} {:>8} {:>9} {:>6} {:>6} {:>6} {share:>6.1}",
            self.mutants,
            self.of(Verdict::Killed),
            self.of(Verdict::Timeout),
            self.of(Verdict::Survived),
            self.of(Verdict::Unreached),
            self.of(Verdict::Open),
            self.argued,
            self.left,
        );
    }
}

/// Prints the table: a row for each name that `name` gives a key, and their sum.
///
/// The share of the killed is of those with a verdict that the list does not argue. A mutant that is killed although it is
/// argued counts as killed, and its entry should go: the names of such are returned.
pub(crate) fn print<'k>(
    keys: &[&'k Key],
    results: &HashMap<Key, (Verdict, String)>,
    named: &HashMap<&Key, By>,
    name: impl Fn(&Key) -> String,
) -> Vec<&'k Key> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut sum = Row::default();
    let mut refuted = Vec::new();
    for &key in keys {
        let verdict = results.get(key).map(|result| result.0);
        let is_killed = matches!(verdict, Some(Verdict::Killed | Verdict::Timeout));
        let by = named.get(key);
        if is_killed && by == Some(&By::Entry) {
            refuted.push(key);
        }
        for row in [rows.entry(name(key)).or_default(), &mut sum] {
            row.mutants += 1;
            if by.is_some() && !is_killed {
                row.argued += 1;
            } else if let Some(at) = Verdict::ALL.iter().position(|&one| Some(one) == verdict) {
                row.verdicts[at] += 1;
            } else {
                row.left += 1;
            }
        }
    }
    println!(
        "{:<34} {:>7} {:>7} {:>7} {:>8} {:>9} {:>6} {:>6} {:>6} {:>6}",
        "", "mutants", "killed", "timeout", "survived", "unreached", "open", "argued", "left", "%"
    );
    rows.iter().for_each(|(name, row)| row.print(name));
    sum.print("all");
    refuted
}
