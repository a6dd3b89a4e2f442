//! A whole test case: a machine and operations on it.
//!
//! The text form (extension `.ops`) has the machine's lines (`shape.rs`), then a line for each operation (`op.rs`).
//! After ` -> ` a line may state the outcome (`expected.rs`). `#` begins a comment. A line that begins with `#!` states
//! a number (`assertion.rs`), but a first line that begins with `#!/` is the operating system's. Empty lines mean
//! nothing.
//!
//! ```text
//! max-order 4
//! pageblock-order 2
//! memory 0x0..0x40 node 0
//! cpus 0
//! a1 = alloc order 2 GFP_KERNEL
//! raw-free a1+1 order 0 -> frame 0x1 is inside the block that starts at 0x0
//! free a1 -> served
//! #! highatomic <= 1
//! ```

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use framewright::NodeId;

use crate::language::assertion;
use crate::language::expected::Expected;
use crate::language::op::{Handle, Op};
use crate::language::shape::Shape;
use crate::language::words::Reason;

/// An operation, and its expected outcome, if any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// Its expected outcome.
    pub expected: Option<Expected>,
}

impl From<Op> for Step {
    fn from(op: Op) -> Step {
        Step { op, expected: None }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.op.fmt(f)?;
        match &self.expected {
            Some(expected) => write!(f, " -> {expected}"),
            None => Ok(()),
        }
    }
}

/// A machine and a list of operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// The machine.
    pub shape: Shape,
    /// Its operations.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Makes a scenario without expected outcomes.
    pub fn new(shape: Shape, ops: impl IntoIterator<Item = Op>) -> Scenario {
        Scenario { shape, steps: ops.into_iter().map(Step::from).collect() }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape.fmt(f)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// A text that is no scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for Scenario {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Scenario, ParseError> {
        let mut reader = Reader::default();
        for (line, content) in (1..).zip(text.lines()) {
            reader.read(line, content).map_err(|reason| ParseError { line, reason })?;
        }
        let Reader { mut shape, steps, .. } = reader;
        if shape.regions.is_empty() {
            let line = text.lines().count().max(1);
            return Err(ParseError { line, reason: "the text ends and no line describes `memory`".into() });
        }
        if shape.cpus.is_empty() {
            shape.cpus.push(NodeId(0));
        }
        Ok(Scenario { shape, steps })
    }
}

struct Reader {
    shape: Shape,
    steps: Vec<Step>,
    /// The line that defines each handle.
    defined: HashMap<Handle, usize>,
}

impl Default for Reader {
    fn default() -> Self {
        Reader { shape: Shape::new(&[], &[]), steps: Vec::new(), defined: HashMap::new() }
    }
}

impl Reader {
    fn read(&mut self, number: usize, line: &str) -> Result<(), Reason> {
        let line = line.trim();
        if let Some(stated) = line.strip_prefix(assertion::SIGN) {
            if number != 1 || !stated.starts_with('/') {
                let op = Op::Assert(without_comment(stated).parse()?);
                self.steps.push(Step::from(op));
            }
            return Ok(());
        }
        let line = without_comment(line);
        if line.is_empty() {
            return Ok(());
        }
        if self.shape.read(line)? {
            let late = || Err("the machine must be described before the first operation".into());
            return if self.steps.is_empty() { Ok(()) } else { late() };
        }
        let (op, expected) = line.split_once("->").map_or((line, None), |(op, rest)| (op, Some(rest.trim())));
        let op: Op = op.parse()?;
        if let Some(handle) = op.defines()
            && let Some(before) = self.defined.insert(handle, number)
        {
            return Err(format!("{handle} has a meaning since line {before}"));
        }
        let expected = expected.map(str::parse).transpose()?;
        self.steps.push(Step { op, expected });
        Ok(())
    }
}

fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(line, _)| line).trim()
}
