//! Every command's help has examples, and the parser takes each of them.
//!
//! An example is a line that is indented by two and starts with the program's name. The line below it, further
//! indented, describes it.

use clap::{Command, CommandFactory, Parser};

use crate::Cli;

/// How many examples a command has at least.
const LEAST: usize = 2;

/// Collects a command's subcommands, by their full names; without those that clap adds.
fn commands(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let name = format!("{name} {}", below.get_name());
        found.push((name.clone(), below.clone()));
        commands(below, &name, found);
    }
}

/// The lines after "Examples:", up to the first that is not indented.
fn examples(command: &Command) -> Option<Vec<String>> {
    let help = command.get_after_long_help().or(command.get_after_help())?.to_string();
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines: Vec<String> = lines.take_while(|line| line.starts_with(' ')).map(str::to_owned).collect();
    (!lines.is_empty()).then_some(lines)
}

/// The arguments that a shell would pass: without redirections, up to a pipe.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut all = shlex::split(line)?.into_iter();
    while let Some(word) = all.next() {
        match word.as_str() {
            "|" | "&&" => break,
            ">" | "<" => drop(all.next()),
            _ => words.push(word),
        }
    }
    Some(words)
}

/// The faults of a command's examples.
fn wrong(name: &str, command: &Command) -> Vec<String> {
    let Some(lines) = examples(command) else { return vec![format!("{name}: its help has no \"Examples:\"")] };
    let is_command = |line: &str| line.starts_with("  framewright ");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| is_command(line)) {
        count += 1;
        if !lines.get(number + 1).is_some_and(|next| next.starts_with("      ")) {
            wrong.push(format!("{name}: nothing says what this does:{line}"));
        }
        if !line.starts_with(&format!("  {name}")) {
            wrong.push(format!("{name}: an example of something else:{line}"));
        }
        match words(line).map(Cli::try_parse_from) {
            Some(Ok(_)) => {}
            Some(Err(error)) => wrong.push(format!("{name}: the parser refuses{line}\n{error}")),
            None => wrong.push(format!("{name}: no shell reads{line}")),
        }
    }
    if count < LEAST {
        wrong.push(format!("{name}: {count} examples, and {LEAST} are the least"));
    }
    wrong
}

#[test]
fn every_command_has_examples_that_parse() {
    let mut found = Vec::new();
    commands(&Cli::command(), "framewright", &mut found);
    assert!(found.len() > 8, "the commands were found: {found:?}");
    let hidden: Vec<_> = found.iter().filter(|(_, command)| command.is_hide_set()).collect();
    assert!(hidden.is_empty(), "the test of every output finds commands by their help: {hidden:?}");
    let wrong: Vec<String> = found.iter().flat_map(|(name, command)| wrong(name, command)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The check itself finds what it is for.
#[test]
fn bad_examples_are_found() {
    let cases = [
        ("", "has no \"Examples:\""),
        ("Examples:\n  framewright sim\n      one\n", "1 examples, and 2"),
        ("Examples:\n  framewright sim\n  framewright sim\n      two\n", "nothing says what this does"),
        ("Examples:\n  framewright sim\n      one\n  framewright replay\n      two\n", "of something else"),
        ("Examples:\n  framewright sim\n      one\n  framewright sim --cpu 1\n      two\n", "--cpu"),
        ("Examples:\n  framewright sim\n      one\n  framewright sim '\n      two\n", "no shell reads"),
    ];
    for (help, expected) in cases {
        let command = Command::new("sim").after_help(help);
        let wrong = wrong("framewright sim", &command).join("\n");
        assert!(wrong.contains(expected), "{help:?}: {wrong:?}");
    }
    let good =
        "Examples:\n  framewright sim | less\n      one\n  framewright sim --format json > 'a b'\n      two\n\nMore.";
    assert_eq!(wrong("framewright sim", &Command::new("sim").after_help(good)), Vec::<String>::new());
}
