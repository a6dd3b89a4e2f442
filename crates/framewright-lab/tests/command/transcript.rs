//! The command as a user runs it, and its answer as a transcript.
#![allow(dead_code, reason = "every test binary uses its own part")]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::replay_synthetic::project;

/// The command in the project's folder, without a terminal.
pub(crate) fn framewright(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewright"));
    command.args(arguments).current_dir(project()).stdin(Stdio::null()).env("COLUMNS", "100");
    command
}

/// Runs it; no message may be one of a panic, or hold a control character.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let output = framewright(arguments).output().unwrap();
    let error = text(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
    assert!(!error.chars().any(|c| c.is_control() && c != '\n'), "{error:?}");
    output
}

/// Its status where whoever would hear its errors is gone.
pub(crate) fn unheard(arguments: &[&str]) -> Option<i32> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    framewright(arguments).stdout(Stdio::null()).stderr(OwnedFd::from(theirs)).status().unwrap().code()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Every command of the program by its full name, as the help of those above names them.
pub(crate) fn commands() -> Vec<String> {
    let mut all = Vec::new();
    below("", &mut all);
    all
}

fn below(command: &str, all: &mut Vec<String>) {
    let help = short_help(command);
    let names = section(&help, "Commands:").filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| *name != "help") {
        let name = format!("{command} {name}").trim_start().to_owned();
        all.push(name.clone());
        below(&name, all);
    }
}

/// The short help, with each option on one line however long that is.
pub(crate) fn short_help(command: &str) -> String {
    let arguments: Vec<&str> = command.split_whitespace().chain(["-h"]).collect();
    let output = framewright(&arguments).env("COLUMNS", "1000").output().unwrap();
    assert!(output.status.success(), "{command}");
    text(&output.stdout)
}

/// Lines of a section of the help.
pub(crate) fn section<'a>(help: &'a str, title: &'a str) -> impl Iterator<Item = &'a str> {
    help.lines().skip_while(move |line| *line != title).skip(1).take_while(|line| !line.is_empty())
}

/// What a user sees, with `folder` called DIR.
pub(crate) fn transcript(folder: &Path, arguments: &[&str]) -> String {
    told(folder, arguments, &run(arguments))
}

fn told(folder: &Path, arguments: &[&str], output: &Output) -> String {
    let code = output.status.code().map_or_else(|| "killed".to_owned(), |code| code.to_string());
    let all =
        format!("$ framewright {}\n{}{}[{code}]\n", arguments.join(" "), text(&output.stdout), text(&output.stderr));
    all.replace(&folder.display().to_string(), "DIR")
}

/// What a user sees of a line of arguments in which `folder` is called DIR.
pub(crate) fn shown(folder: &Path, command: &str) -> String {
    let command = command.replace("DIR", &folder.display().to_string());
    transcript(folder, &command.split_whitespace().collect::<Vec<_>>())
}

/// What a user sees of commands that are refused: each ends with 2, and prints nothing as a result.
pub(crate) fn refused(folder: &Path, commands: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut all = String::new();
    for command in commands {
        let command = command.as_ref().replace("DIR", &folder.display().to_string());
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let output = run(&arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{command}");
        all += &(told(folder, &arguments, &output) + "\n");
    }
    all
}
