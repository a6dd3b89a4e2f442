//! The outcome of a list, as text, as a row of a table and as JSON.

use std::fmt::Write;

use framewright_lab::mechanisms::label;
use framewright_ops::run::{Kind, Line};
use framewright_ops::{Checks, Op, Outcome, Scenario, follow};
use framewright_table::figures::counted;
use framewright_table::{Table, cells};
use serde::{Serialize, Serializer};

use crate::command::output::printable;

/// Version of the JSON.
const SCHEMA: &str = "framewright-ops/1";
/// How wide the column of operations may get.
const WIDEST: usize = 64;

/// The outcome of a step.
#[derive(Serialize)]
struct Shown {
    /// Its number in the list, counted from 1.
    number: usize,
    /// Its line.
    step: String,
    /// The outcome in words.
    outcome: String,
    /// Whether the list states what must come of it.
    stated: bool,
    /// Whether it is not what the list states.
    differs: bool,
}

/// Something that is wrong whatever the list states.
#[derive(Serialize)]
pub(super) struct Wrong {
    /// Number of the step; 0 for booting, one more than there are for what is left at the end.
    step: usize,
    /// Its line, if it is one.
    operation: Option<String>,
    /// The kind of failure.
    #[serde(serialize_with = "kind_name")]
    pub(super) kind: Kind,
    /// The message.
    pub(super) what: String,
}

/// One list under one set of mechanisms.
#[derive(Serialize)]
pub(super) struct ListRun {
    file: String,
    mechanisms: String,
    cpus: usize,
    frames: u64,
    /// Steps from one check of the invariants to the next; 0: at the end only.
    check_every: usize,
    operations: usize,
    /// Operations that were carried out.
    done: usize,
    served: usize,
    failed: usize,
    skipped: usize,
    /// Outcomes, rows and numbers that the list states, as far as the run came.
    statements: usize,
    /// Of these, those that do not hold.
    differing: usize,
    pub(super) wrong: Option<Wrong>,
    /// Each step; those that differ alone if that is what was asked for.
    steps: Vec<Shown>,
}

/// All runs of a command.
#[derive(Serialize)]
struct ListsDocument<'r> {
    schema: &'static str,
    is_as_stated: bool,
    runs: &'r [ListRun],
}

fn kind_name<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind_word(*kind))
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Boot => "boot",
        Kind::Panic => "panic",
        Kind::Answer => "answer",
        Kind::Check => "check",
        Kind::Stated => "stated",
        Kind::Lost => "lost",
    }
}

/// The outcome of a step, in words.
fn words(line: &Line<'_>) -> String {
    let checks = matches!(line.step.op, Op::Expect(_) | Op::Assert(_) | Op::Validate);
    match line.outcome {
        None => format!("does not hold: {}", line.differs.unwrap_or_default()),
        Some(_) if checks => "holds".to_owned(),
        Some(outcome) if outcome.is_failed() => format!("failed: {outcome}"),
        Some(Outcome::Done) if line.step.op.defines().is_some() => "served".to_owned(),
        Some(outcome) if outcome.is_served() && line.step.op.defines().is_some() => format!("served {outcome}"),
        Some(outcome) => outcome.to_string(),
    }
}

/// Runs a list.
pub(super) fn run(file: &str, list: &Scenario, checks: Checks, quiet: bool) -> ListRun {
    let shape = &list.shape;
    let mut run = ListRun {
        file: file.to_owned(),
        mechanisms: label(&shape.mechanisms),
        cpus: shape.cpus.len(),
        frames: shape.frames(),
        check_every: checks.every,
        operations: list.steps.len(),
        done: 0,
        served: 0,
        failed: 0,
        skipped: 0,
        statements: 0,
        differing: 0,
        wrong: None,
        steps: Vec::new(),
    };
    let result = follow(list, checks, &mut |line| run.note(line, quiet));
    run.wrong = result.err().map(|failure| Wrong {
        step: failure.step,
        operation: failure.op.as_deref().map(printable),
        kind: failure.kind,
        what: printable(&failure.wrong),
    });
    run
}

impl ListRun {
    fn note(&mut self, line: &Line<'_>, quiet: bool) {
        let stated = line.step.expected.is_some() || matches!(line.step.op, Op::Expect(_) | Op::Assert(_));
        let differs = line.differs.is_some();
        self.done += 1;
        self.statements += usize::from(stated);
        self.differing += usize::from(differs);
        match line.outcome {
            Some(outcome) if outcome.is_failed() => self.failed += 1,
            Some(Outcome::Skipped) => self.skipped += 1,
            Some(_) if line.step.op.defines().is_some() => self.served += 1,
            _ => {}
        }
        if !quiet || differs {
            let (step, outcome) = (printable(&line.step.to_string()), printable(&words(line)));
            self.steps.push(Shown { number: line.number, step, outcome, stated, differs });
        }
    }

    /// Whether every step is as the list states, and nothing is wrong.
    pub(super) fn is_as_stated(&self) -> bool {
        self.differing == 0 && self.wrong.is_none()
    }

    /// The verdict in a few words.
    fn verdict(&self) -> String {
        match (&self.wrong, self.differing) {
            (Some(wrong), _) if wrong.step > self.operations => "wrong at the end".to_owned(),
            (Some(wrong), _) => format!("wrong at operation {}", wrong.step),
            (None, 0) => "as stated".to_owned(),
            (None, differing) => format!("{} not as stated", counted(differing, "step")),
        }
    }

    /// A line of what the run is, one of each step, and the sums.
    pub(super) fn text(&self) -> String {
        let ListRun { file, mechanisms, frames, .. } = self;
        let mut text = format!("{file}: {}, {frames} frames, mechanisms {mechanisms}\n", counted(self.cpus, "CPU"));
        let digits = self.operations.to_string().len();
        let widest = self.steps.iter().map(|shown| shown.step.chars().count()).max().unwrap_or(0).min(WIDEST);
        let mut row = |mark: &str, number: usize, step: &str, outcome: &str| {
            writeln!(text, "{mark} {number:>digits$}  {step:<widest$}  {outcome}").expect("a string takes all");
        };
        for Shown { number, step, outcome, differs, .. } in &self.steps {
            let (mark, outcome) =
                if *differs { ("!", format!("{outcome}, not as stated")) } else { (" ", outcome.clone()) };
            row(mark, *number, step, &outcome);
        }
        if let Some(wrong) = &self.wrong {
            let operation = wrong.operation.as_deref().unwrap_or("(everything is given back)");
            row("!", wrong.step, operation, &format!("wrong: {}", wrong.what));
        }
        text + &self.sums()
    }

    fn sums(&self) -> String {
        let ListRun { served, failed, skipped, .. } = self;
        let operations = counted(self.operations, "operation");
        let statements = match (self.statements, self.differing) {
            (0, _) => "nothing is stated".to_owned(),
            (all, 0) => format!("{} of {all} statements hold", all),
            (all, differing) => format!("{} of {all} statements hold", all - differing),
        };
        let rest = match &self.wrong {
            Some(wrong) if wrong.step < self.operations => {
                format!("; operations from {} on were not run", wrong.step + 1)
            }
            _ => String::new(),
        };
        let verdict = self.verdict();
        format!("{operations}: {served} served, {failed} failed, {skipped} skipped; {statements}{rest}: {verdict}\n")
    }
}

/// A row for each run.
pub(super) fn table(runs: &[ListRun]) -> String {
    let mut table = Table::new("<<>><");
    table.row(cells!["list  ", "mechanisms", "  operations", "  statements", "  verdict"]);
    for run in runs {
        let ListRun { file, mechanisms, operations, statements, .. } = run;
        let verdict = run.verdict();
        table.row(cells!["{file}  ", "{mechanisms}", "  {operations}", "  {statements}", "  {verdict}"]);
    }
    format!("\n{table}")
}

/// All runs for programs.
pub(super) fn json(runs: &[ListRun]) -> anyhow::Result<String> {
    let document = ListsDocument { schema: SCHEMA, is_as_stated: runs.iter().all(ListRun::is_as_stated), runs };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrong answer ends the run: its step is told, and that no more were run.
    #[test]
    fn what_is_wrong_is_told() {
        let list: Scenario =
            "memory 0x0..0x400 node 0\na1 = alloc order 0 GFP_KERNEL\nfree a1\nvalidate".parse().unwrap();
        let mut run = run("list.ops", &list, Checks::default(), true);
        assert!(run.is_as_stated() && run.text().ends_with(": as stated\n"), "{}", run.text());
        let operation = Some("free a1".to_owned());
        run.wrong = Some(Wrong { step: 2, operation, kind: Kind::Answer, what: "answered Ok".to_owned() });
        assert!(!run.is_as_stated());
        let text = run.text();
        assert!(text.contains("\n! 2  free a1  wrong: answered Ok\n"), "{text}");
        assert!(text.ends_with("; operations from 3 on were not run: wrong at operation 2\n"), "{text}");
        run.wrong = Some(Wrong { step: 4, operation: None, kind: Kind::Lost, what: "3 frames lost".to_owned() });
        assert!(run.text().ends_with(": wrong at the end\n"), "{}", run.text());
        let json = json(&[run]).unwrap();
        assert!(json.contains("\"is_as_stated\": false") && json.contains("\"kind\": \"lost\""), "{json}");
    }
}
