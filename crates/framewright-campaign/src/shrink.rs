//! Makes a failing case small without changing its symptom.
//!
//! What follows the failure goes first, then what makes a case hard to read: the schedule, CPUs, mechanisms, kinds of
//! fault. Then operations go, in large parts first (delta debugging), until none can be left out or the effort is
//! spent. Each operation draws from its own generator, so what is left keeps its meaning.

use framewright::Mechanisms;

use crate::case::{Case, OPERATIONS};
use crate::kind::{Kind, Kinds};
use crate::play::{Failed, play};
use crate::schedule::Schedule;
use crate::wrong::Symptom;

/// Operations that the attempts may take in all, unless told otherwise.
pub const EFFORT: u64 = 20_000_000;

/// A search for a smaller case.
struct Search {
    case: Case,
    failed: Box<Failed>,
    left: u64,
}

/// Returns the smallest case found that fails with the symptom of `failed`, and how it fails.
///
/// `effort` is the number of operations that the attempts may take in all.
pub fn shrink(case: &Case, failed: Box<Failed>, effort: u64) -> (Case, Box<Failed>) {
    let mut search = Search { case: case.clone(), failed, left: effort };
    search.cut_off();
    search.simplify();
    search.leave_out_operations();
    search.leave_out_kinds();
    search.leave_out_operations();
    (search.case, search.failed)
}

impl Search {
    /// Keeps a case if it fails with the symptom.
    fn attempt(&mut self, case: Case) -> bool {
        let length = case.length();
        if self.left < length || case == self.case {
            return false;
        }
        self.left -= length.max(1);
        match play(&case, false) {
            Err(failed) if failed.wrong.symptom == self.symptom() => {
                (self.case, self.failed) = (case, failed);
                true
            }
            _ => false,
        }
    }

    fn symptom(&self) -> Symptom {
        self.failed.wrong.symptom.clone()
    }

    fn numbers(&self) -> Vec<u64> {
        self.case.operations.iter().cloned().flatten().collect()
    }

    /// Leaves out what comes after the failure.
    fn cut_off(&mut self) {
        let before = self.failed.before;
        if before < OPERATIONS {
            let numbers: Vec<u64> = self.numbers().into_iter().filter(|number| *number < before).collect();
            self.attempt(self.case.with_operations(&numbers));
        }
    }

    fn simplify(&mut self) {
        self.attempt(Case { schedule: Some(Schedule::Calls), ..self.case.clone() });
        for cpus in [1, 2, 4] {
            if self.attempt(Case { cpus: Some(cpus), ..self.case.clone() }) {
                break;
            }
        }
        for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
            if self.attempt(Case { mechanisms: Some(mechanisms), ..self.case.clone() }) {
                break;
            }
        }
        self.attempt(Case { without: Kinds::ALL, ..self.case.clone() });
        self.leave_out_kinds();
        self.cut_off();
    }

    fn leave_out_kinds(&mut self) {
        for kind in Kind::ALL {
            if !self.case.without.has(*kind) {
                let without = Kinds(self.case.without.0 | Kinds::ALL.0 & !Kinds::ALL.without(*kind).0);
                self.attempt(Case { without, ..self.case.clone() });
            }
        }
    }

    fn leave_out_operations(&mut self) {
        let mut size = self.numbers().len().div_ceil(2);
        while size != 0 {
            let mut at = 0;
            let mut is_smaller = false;
            while at < self.numbers().len() {
                let mut numbers = self.numbers();
                numbers.drain(at..(at + size).min(numbers.len()));
                if self.attempt(self.case.with_operations(&numbers)) {
                    is_smaller = true;
                } else {
                    at += size;
                }
            }
            size = if size == 1 && is_smaller { 1 } else { size / 2 };
        }
    }
}
