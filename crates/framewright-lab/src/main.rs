//! The `framewright` command.

#[cfg(test)]
mod examples;
mod command;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

/// The laboratory of the Framewright page allocator.
#[derive(Parser)]
#[command(
    name = "framewright",
    version,
    propagate_version = true,
    after_help = concat!(
        "Without a command: reproduce all --quick --report report, five published experiments at a glance, in a minute of two CPUs.\n",
        "Documents that help and messages name, such as docs/reproduce.md, are at ",
        env!("CARGO_PKG_REPOSITORY"),
        "."
    )
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    Replay(command::replay::Replay),
    Explain(command::explain::Explain),
    Why(command::why::Why),
    State(command::state::State),
    Convert(command::convert::Convert),
    Record(command::record::Record),
    Doctor(command::doctor::Doctor),
    Bench(command::bench::Bench),
    Sim(command::sim::Sim),
    Sweep(command::sweep::Sweep),
    Reproduce(command::reproduce::Reproduce),
    Calibrate(command::calibrate::Calibrate),
    Machine(command::machine::Machine),
    Compare(command::compare::Compare),
    Stress(command::stress::Stress),
    Ops(command::ops::Ops),
    Mechanisms(command::list_mechanisms::ListMechanisms),
    Proc(Box<command::proc::Proc>),
    Top(command::top::Top),
    Completions(command::completions::Completions),
    Man(command::man::Man),
}

fn main() -> ExitCode {
    let parsed = match Cli::try_parse() {
        Ok(parsed) => parsed,
        Err(answer) => return command::output::answer(&answer),
    };
    let reproduce = || Command::Reproduce(command::reproduce::Reproduce::at_a_glance());
    let result = match parsed.command.unwrap_or_else(reproduce) {
        Command::Replay(replay) => replay.run(),
        Command::Explain(explain) => explain.run(),
        Command::Why(why) => why.run(),
        Command::State(state) => state.run(),
        Command::Convert(convert) => convert.run(),
        Command::Record(record) => record.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Bench(bench) => bench.run(),
        Command::Sim(sim) => sim.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Reproduce(reproduce) => reproduce.run(),
        Command::Calibrate(calibrate) => calibrate.run(),
        Command::Machine(machine) => machine.run(),
        Command::Compare(compare) => compare.run(),
        Command::Stress(stress) => stress.run(),
        Command::Ops(ops) => ops.run(),
        Command::Mechanisms(list) => list.run(),
        Command::Proc(proc) => proc.run(),
        Command::Top(top) => top.run(),
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output closed it, and has seen enough.
        Err(error) if command::ended::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<command::ended::Violated>() => ExitCode::FAILURE,
        Err(error) if error.is::<command::ended::Ended>() => {
            error.downcast_ref::<command::ended::Ended>().map_or(ExitCode::FAILURE, |ended| ExitCode::from(ended.0))
        }
        Err(error) => {
            command::output::note(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}
