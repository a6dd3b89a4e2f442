//! Files of machines: no panic, and what is read is written as it was meant.
#![no_main]

use framewright_sim::machine::{Written, named, names, parse};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// A text of any kind; or a right one with changes, because no mutation finds fifty sound entries.
#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Text(&'a str),
    Changed { machine: u8, changes: Vec<(u8, Change<'a>)> },
}

/// A change of a line.
#[derive(Arbitrary, Debug)]
enum Change<'a> {
    Remove,
    Repeat,
    Replace(&'a str),
    /// What follows the first `=`.
    Value(&'a str),
    /// The first number.
    Number(f64),
    /// The first number, if there is to be a whole one.
    Count(u16),
}

impl Input<'_> {
    fn text(&self) -> String {
        let (machine, changes) = match self {
            Input::Text(text) => return (*text).to_owned(),
            Input::Changed { machine, changes } => (*machine, changes),
        };
        let name = names().nth(usize::from(machine) % names().count()).expect("there are machines");
        let spec = named(name).expect("it is built in");
        let mut lines: Vec<String> = Written(&spec).to_string().lines().map(str::to_owned).collect();
        for (at, change) in changes {
            let at = usize::from(*at) % lines.len();
            let line = &mut lines[at];
            match change {
                Change::Remove => line.clear(),
                // Of one line, or it doubles each time.
                Change::Repeat if line.contains('\n') => {}
                Change::Repeat => *line = format!("{line}\n{line}"),
                Change::Replace(text) => (*text).clone_into(line),
                Change::Value(text) => *line = format!("{} = {text}", line.split('=').next().unwrap_or_default()),
                Change::Number(number) => replace_number(line, &number.to_string()),
                Change::Count(count) => replace_number(line, &count.to_string()),
            }
        }
        lines.join("\n")
    }
}

fn replace_number(line: &mut String, number: &str) {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    if let Some(start) = line.find("= ").map(|at| at + 2).and_then(|at| Some(at + line[at..].find(is_part)?)) {
        let end = line[start..].find(|c| !is_part(c)).map_or(line.len(), |end| start + end);
        line.replace_range(start..end, number);
    }
}

fuzz_target!(|input: Input<'_>| {
    let Ok(spec) = parse("machine.toml", &input.text()) else { return };
    let _ = spec.model();
    let text = Written(&spec).to_string();
    let again = parse("machine.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again, spec, "{text}");
});
