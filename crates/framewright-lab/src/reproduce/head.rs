//! What the JSON of every reproduction begins with.

use framewright_sim::machine::Spec;
use serde::Serialize;

/// Version of the JSON.
pub const SCHEMA: &str = "framewright-reproduce/1";

/// Which experiment it is, and how it is made again.
#[derive(Clone, Serialize, Debug)]
pub struct Head {
    /// Version of this format.
    pub schema: &'static str,
    /// Name of the experiment, and of the table that machines' numbers are fitted to.
    pub experiment: &'static str,
    /// The command that prints it.
    pub command: String,
    /// What was published.
    pub title: String,
    /// Where.
    pub source: String,
    /// The machine.
    pub model: String,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Head {
    /// Of an experiment on a machine.
    pub fn new(experiment: &'static str, command: &str, published: [&str; 2], (machine, seed): (&Spec, u64)) -> Self {
        let [title, source] = published.map(str::to_owned);
        let (command, model) = (command.to_owned(), machine.name.clone());
        Self { schema: SCHEMA, experiment, command, title, source, model, seed }
    }
}
