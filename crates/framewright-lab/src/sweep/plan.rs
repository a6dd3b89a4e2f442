//! A plan as a file: a line about all cells, and then a line for each.
//!
//! The first line holds the machines and the lists of operations with their whole content, as texts that the program
//! wrote. A reader checks that the plan is complete, and that each cell has its hash. This version does not run the
//! plan of another one, because the results could not be assigned to its cells.
//!
//! Lines are JSON, at most [`MOST_CELLS`] of them, in a file of at most 256 MiB.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use framewright_sim::VERSION;
use framewright_sim::machine::{self, Spec, Written};
use framewright_sim::workload::{Job, Ops, Workload};
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::digest::Digest;

/// Version of this format.
pub const SCHEMA: &str = "framewright-sweep-plan/1";
/// Cells of a plan at most.
pub const MOST_CELLS: usize = 100_000;
/// Bytes of a plan at most.
const LONGEST: u64 = 256 << 20;

/// A plan.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepPlan {
    /// The facts about all cells.
    pub head: PlanHead,
    /// The cells, each with its hash.
    pub cells: Vec<(Digest, Cell)>,
    machines: Vec<PlanMachine>,
    lists: Vec<List>,
}

/// A machine that cells name.
#[derive(Clone, PartialEq, Debug)]
struct PlanMachine {
    spec: Spec,
    digest: Digest,
    cpus: usize,
}

/// A list of operations that cells name.
#[derive(Clone, PartialEq, Debug)]
struct List {
    ops: Ops,
    digest: Digest,
}

/// The first line.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PlanHead {
    /// Version of this format.
    pub schema: String,
    /// Version of the program that the cells are for.
    pub version: String,
    /// The command that made it.
    pub command: String,
    /// How many cells there are.
    pub cells: usize,
    /// Machines, each as the text of its file.
    pub machines: Vec<NamedText>,
    /// Lists of operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<NamedText>,
}

/// Something that cells name, as it was when the plan was made.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct NamedText {
    /// Its name.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// A line for a cell.
#[derive(Serialize, Deserialize)]
struct PlanRow {
    index: usize,
    hash: Digest,
    cell: Cell,
}

impl SweepPlan {
    /// A plan of runs, in their order, that `command` makes again.
    ///
    /// # Errors
    /// There are none, too many, two equal ones, or two machines or lists of one name.
    pub fn new(command: &str, runs: &[(&Spec, Job)]) -> anyhow::Result<SweepPlan> {
        let (mut machines, mut lists): (Vec<PlanMachine>, Vec<List>) = (Vec::new(), Vec::new());
        let mut cells = Vec::new();
        for (spec, job) in runs {
            let at = machines.iter().position(|known| known.spec.name == spec.name).unwrap_or(machines.len());
            if at == machines.len() {
                machines.push(PlanMachine::new((*spec).clone()));
            } else if machines[at].spec != **spec {
                bail!("two machines are called {}: give one of the files another name", spec.name);
            }
            if let Workload::Ops(ops) = &job.workload {
                match lists.iter().find(|known| known.ops.name() == ops.name()) {
                    None => lists.push(List::new(ops.clone())),
                    Some(known) if known.ops == *ops => {}
                    Some(_) => bail!("{} changed while the plan was made", ops.name()),
                }
            }
            let cell = Cell::of(&spec.name, &machines[at].digest, job);
            cells.push((cell.hash(VERSION)?, cell));
        }
        check_number(cells.len())?;
        let mut seen = HashSet::new();
        if let Some((_, twice)) = cells.iter().find(|(hash, _)| !seen.insert(hash)) {
            bail!("two cells are the same: {}", twice.described());
        }
        let named = |name: &str, text: String| NamedText { name: name.to_owned(), text };
        let head = PlanHead {
            schema: SCHEMA.to_owned(),
            version: VERSION.to_owned(),
            command: command.to_owned(),
            cells: cells.len(),
            machines: machines.iter().map(|machine| named(&machine.spec.name, machine.written())).collect(),
            lists: lists.iter().map(|list| named(list.ops.name(), list.ops.text())).collect(),
        };
        Ok(SweepPlan { head, cells, machines, lists })
    }

    /// The file's text.
    ///
    /// # Errors
    /// None that a plan could cause.
    pub fn jsonl(&self) -> anyhow::Result<String> {
        let mut text = serde_json::to_string(&self.head)? + "\n";
        for (index, (hash, cell)) in self.cells.iter().enumerate() {
            text += &serde_json::to_string(&PlanRow { index, hash: hash.clone(), cell: cell.clone() })?;
            text.push('\n');
        }
        Ok(text)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no plan; which line, and why.
    pub fn read(path: &Path) -> anyhow::Result<SweepPlan> {
        let name = path.display().to_string();
        let mut text = String::new();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        file.take(LONGEST + 1).read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
        if text.len() as u64 > LONGEST {
            bail!("{name} is larger than {} MiB", LONGEST >> 20);
        }
        SweepPlan::parse(&name, &text)
    }

    /// Reads the text of a file that errors call `name`.
    ///
    /// # Errors
    /// It is no plan; which line, and why.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<SweepPlan> {
        let mut lines = (1..).zip(text.lines());
        let Some((_, first)) = lines.next() else {
            bail!("{name} is empty, and no plan; framewright sweep plan writes one")
        };
        let head = head(first).with_context(|| format!("{name}:1"))?;
        check_number(head.cells).with_context(|| format!("{name}:1"))?;
        let machines = head
            .machines
            .iter()
            .map(|machine| Ok(PlanMachine::new(machine::parse(&format!("{}.toml", machine.name), &machine.text)?)));
        let machines: anyhow::Result<Vec<PlanMachine>> = machines.collect();
        let lists = head.lists.iter().map(|list| Ok(List::new(Ops::parse(&list.name, &list.text)?)));
        let lists: anyhow::Result<Vec<List>> = lists.collect();
        let machines = machines.with_context(|| format!("{name}:1"))?;
        let lists = lists.with_context(|| format!("{name}:1"))?;
        let mut plan = SweepPlan { head, cells: Vec::new(), machines, lists };
        let mut seen = HashSet::new();
        for (number, line) in lines {
            let row = plan.row(line).with_context(|| format!("{name}:{number}"))?;
            if !seen.insert(row.0.clone()) {
                bail!("{name}:{number}: this cell stands there twice");
            }
            plan.cells.push(row);
        }
        match plan.cells.len() {
            cells if cells == plan.head.cells => Ok(plan),
            cells => bail!(
                "{name} has {cells} of its {} cells, so it was cut off or joined; plan it again: {} --force",
                plan.head.cells,
                plan.head.command
            ),
        }
    }

    /// Reads a line with the next cell.
    fn row(&self, line: &str) -> anyhow::Result<(Digest, Cell)> {
        let PlanRow { index, hash, cell } = serde_json::from_str(line).context("is no cell")?;
        if index != self.cells.len() {
            bail!("is cell {index}, and cell {} was to come", self.cells.len());
        }
        if cell.hash(&self.head.version)? != hash {
            bail!("the cell is not what its hash says: somebody changed it; plan it instead");
        }
        self.job(&cell)?;
        Ok((hash, cell))
    }

    /// The machine of a cell, as a file describes it.
    ///
    /// # Errors
    /// The plan has none of that name and content.
    pub fn machine(&self, cell: &Cell) -> anyhow::Result<&Spec> {
        Ok(&self.place(cell)?.spec)
    }

    fn place(&self, cell: &Cell) -> anyhow::Result<&PlanMachine> {
        let is_it = |machine: &&PlanMachine| machine.spec.name == cell.machine && machine.digest == cell.model;
        let machine = self.machines.iter().find(is_it);
        machine.with_context(|| format!("machine {:?} with this content is not in the first line", cell.machine))
    }

    /// The run of a cell.
    ///
    /// # Errors
    /// The first statement of the cell that this version would not write.
    pub fn job(&self, cell: &Cell) -> anyhow::Result<Job> {
        let has = self.place(cell)?.cpus;
        if cell.cpus == 0 || cell.cpus > has {
            bail!("there is no run on {} CPUs: {} has 1 to {has}", cell.cpus, cell.machine);
        }
        let list = cell.list.as_ref().map(|digest| self.lists.iter().find(|list| list.digest == *digest));
        let workload = match list {
            Some(list) => Workload::Ops(list.context("its list of operations is not in the first line")?.ops.clone()),
            // A plan includes its lists; it does not read files of this host.
            None if cell.workload.starts_with("ops:") => bail!("a list of operations has to come with its digest"),
            None => cell.workload.parse()?,
        };
        cell.job(workload)
    }
}

impl PlanMachine {
    fn new(spec: Spec) -> PlanMachine {
        let (digest, cpus) = (Digest::of(&Written(&spec).to_string()), spec.model().topology.cpus());
        PlanMachine { spec, digest, cpus }
    }

    fn written(&self) -> String {
        Written(&self.spec).to_string()
    }
}

impl List {
    fn new(ops: Ops) -> List {
        let digest = Digest::of(&ops.text());
        List { ops, digest }
    }
}

fn head(line: &str) -> anyhow::Result<PlanHead> {
    /// The fields that all versions have.
    #[derive(Deserialize)]
    struct Any {
        schema: String,
    }
    let Any { schema } = serde_json::from_str(line).context("is not the first line of a plan")?;
    if schema != SCHEMA {
        bail!("is {schema:?}, and a plan of this program is {SCHEMA:?}");
    }
    let head: PlanHead = serde_json::from_str(line).context("is not the first line of a plan")?;
    if head.version != VERSION {
        bail!(
            "was planned by version {:?}, and this is {VERSION}; plan it again: {} --force",
            head.version,
            head.command
        );
    }
    Ok(head)
}

fn check_number(cells: usize) -> anyhow::Result<()> {
    match cells {
        0 => bail!("the plan has no cells"),
        1..=MOST_CELLS => Ok(()),
        _ => bail!("{cells} cells are more than a plan has, which is {MOST_CELLS}; make several plans"),
    }
}
