//! A small program whose mutants are counted, compiled and switched on; and the checks of the list.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::argued::Argued;
use crate::collect::sites_of;
use crate::copy::sources;
use crate::emit::planted;
use crate::mutant::Key;
use crate::{lines_of_diff, rank};

/// Each kind of place once, and what has no mutants.
const PLANTED: &str = r#"
use core::fmt;

pub const LIMIT: u32 = 1 + 2;
struct Sum(u32);
impl fmt::Debug for Sum {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result { Ok(()) }
}
impl Sum {
    fn add(&mut self, more: u32) {
        self.0 += more;
        check(self.0).ok();
    }
}
fn check(value: u32) -> Result<(), ()> {
    if value < LIMIT { Ok(()) } else { Err(()) }
}
const fn double(value: u32) -> u32 {
    value * 2
}
const EVALUATED: u32 = double(4);
fn name(value: u32) -> &'static str {
    match value {
        0 => "none",
        n if n == 8 => "eight",
        _ => "some",
    }
}
fn test(numbers: [u32; 1 + 1]) -> bool {
    if let Some(first) = numbers.first() && *first > 0 { numbers[1] > 1 } else { !numbers.is_empty() }
}
fn main() {
    let mut sum = Sum(0);
    sum.add(2);
    println!("{} {} {EVALUATED} {} {} {}", sum.0, double(3), name(0), name(8), test([1, 2]));
}
#[cfg(test)]
mod tests {
    #[test]
    fn none_here() { assert_eq!(1 + 1, 2); }
}
fn nor_here(value: u32, other: u32) {
    let _ = (value, other);
}
"#;

fn changes_of(text: &str) -> Vec<String> {
    let found = sites_of("main.rs", text).expect("a program");
    let mutants = found.sites.iter().flat_map(|site| &site.mutants);
    mutants.map(|mutant| format!("{} {} {}", mutant.line, mutant.key.function, mutant.key.change)).collect()
}

#[test]
fn every_kind_of_place_has_its_mutants() {
    let expected = [
        "10 Sum::add body -> ()",
        "11 Sum::add statement -> nothing",
        "11 Sum::add += -> -=",
        "12 Sum::add statement -> nothing",
        "15 check body -> Ok(())",
        "16 check if -> true",
        "16 check if -> false",
        "16 check < -> <=",
        "16 check < -> >=",
        "18 double body -> 0",
        "18 double body -> 1",
        "19 double * -> +",
        "19 double 2 -> 3",
        "19 double 2 -> 1",
        "24 name arm -> _",
        "25 name guard -> true",
        "25 name guard -> false",
        "25 name == -> !=",
        "25 name 8 -> 9",
        "25 name 8 -> 7",
        "29 test body -> true",
        "29 test body -> false",
        "30 test if -> true",
        "30 test if -> false",
        "30 test > -> >=",
        "30 test > -> <=",
        "30 test 0 -> 1",
        "30 test > -> >=",
        "30 test > -> <=",
        "30 test 1 -> 2",
        "30 test 1 -> 0",
        "30 test 1 -> 2",
        "30 test 1 -> 0",
        "30 test ! -> ",
        "30 test is_empty -> not",
    ];
    let changes = changes_of(PLANTED);
    let of_main = changes.iter().filter(|change| change.contains(" main ")).count();
    assert_eq!(of_main, 1 + 1 + 1 + 2, "its body, sum.add and 0 and 2; what a macro prints has none");
    let others: Vec<_> = changes.iter().filter(|change| !change.contains(" main ")).collect();
    assert_eq!(others, expected);
    let skipped = sites_of("main.rs", PLANTED).expect("a program").skipped;
    assert_eq!((skipped.debug, skipped.constants, skipped.macros), (1, 2, 0));
}

#[test]
fn a_name_counts_equal_changes() {
    let found = sites_of("main.rs", "fn f(a: u8) -> bool {\n    a < 3 || a > 5 && a < 9\n}\n").expect("a program");
    let keys: Vec<&Key> = found.sites.iter().flat_map(|site| &site.mutants).map(|mutant| &mutant.key).collect();
    let equal = keys.iter().filter(|key| key.change == "< -> <=").map(|key| key.nth);
    assert_eq!(equal.collect::<Vec<_>>(), [1, 2]);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    for key in keys {
        assert_eq!(Key::parse(&key.to_string()).as_ref(), Some(key));
    }
}

/// Compiles the planted program with every mutant; returns what it prints with none, and with each.
#[test]
fn mutants_compile_and_switch() {
    let found = sites_of("main.rs", PLANTED).expect("a program");
    let (text, mutants) = planted(PLANTED, &found.sites, &HashSet::new(), 0);
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("main.rs");
    let text = format!("#![feature(core_intrinsics, const_eval_select)]\n{text}\nmod mutant_switch;\n");
    fs::write(&source, text).expect("a file");
    fs::write(folder.path().join("mutant_switch.rs"), include_str!("../mutant_switch.rs")).expect("a file");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(rustc)
        .args(["--edition=2024", "--cap-lints=allow", "--crate-name=planted", "main.rs"])
        .current_dir(folder.path())
        .env("RUSTC_BOOTSTRAP", "1")
        .output()
        .expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let program = folder.path().join("planted");
    let printed = |number: Option<u32>| {
        let mut command = Command::new(&program);
        command.env_remove("MUTANT").env_remove("MUTANTS_REACHED");
        if let Some(number) = number {
            command.env("MUTANT", number.to_string());
        }
        String::from_utf8(command.output().expect("a run").stdout).expect("text")
    };
    assert_eq!(printed(None), "2 6 8 none eight true\n");
    let with = |function: &str, change: &str| {
        let found = mutants.iter().find(|one| one.mutant.key.function == function && one.mutant.key.change == change);
        printed(Some(found.expect("a mutant").number))
    };
    assert_eq!(with("Sum::add", "body -> ()"), "0 6 8 none eight true\n");
    assert_eq!(with("double", "* -> +"), "2 5 8 none eight true\n", "a constant is not changed");
    assert_eq!(with("name", "arm -> _"), "2 6 8 some eight true\n");
    assert_eq!(with("name", "guard -> false"), "2 6 8 none some true\n");
    assert_eq!(with("test", "body -> false"), "2 6 8 none eight false\n");
    assert_eq!(with("main", "body -> ()"), "");
    let changed = mutants.iter().filter(|one| printed(Some(one.number)) != printed(None)).count();
    assert!(changed > 20, "{changed} of {} are noticed", mutants.len());

    let record = folder.path().join("reached");
    fs::write(&record, []).expect("a file");
    Command::new(&program).env("MUTANTS_REACHED", &record).output().expect("a run");
    let reached = fs::read(&record).expect("a record");
    let is_reached = |number: u32| reached.get(number as usize) == Some(&1);
    let first = |function: &str| mutants.iter().find(|one| one.mutant.key.function == function).map(|one| one.first);
    assert!(first("Sum::add").is_some_and(is_reached));
    let last = mutants.iter().find(|one| one.mutant.key.change == "is_empty -> not").map(|one| one.first);
    assert!(last.is_some_and(|number| !is_reached(number)), "the branch is not taken");
}

#[test]
fn the_list_names_what_the_core_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = sources(&root).expect("the core");
    let mutants: Vec<Key> =
        sources.into_iter().flat_map(|one| one.sites).flat_map(|one| one.mutants).map(|one| one.key).collect();
    assert_eq!(mutants.iter().collect::<HashSet<_>>().len(), mutants.len(), "names are unique");
    let list = Argued::read(&root).expect("the list");
    list.named(mutants.iter()).expect("each entry names mutants of the core");
}

#[test]
fn a_wrong_entry_is_found() {
    let found = sites_of("main.rs", PLANTED).expect("a program");
    let keys: Vec<Key> = found.sites.iter().flat_map(|site| &site.mutants).map(|one| one.key.clone()).collect();
    let entry = |text: &str, changes: &str, reason: &str| {
        format!(
            "[[mutant]]\nfile = 'main.rs'\nfunction = 'double'\ntext = '{text}'\nchanges = [{changes}]\nreason = '{reason}'\n"
        )
    };
    let right = entry("value * 2", "'* -> +', '2 -> 3'", "nobody looks at it");
    let judge = |list: &str| {
        let list = Argued::parse(list)?;
        Ok::<_, Box<dyn std::error::Error>>(list.named(keys.iter())?.len())
    };
    assert_eq!(judge(&right).expect("right"), 2);
    for (wrong, part) in [
        (entry("value * 3", "'* -> +'", "nobody looks at it"), "no mutant * -> +"),
        (entry("value * 2", "'* -> -'", "nobody looks at it"), "no mutant * -> -"),
        (entry("value * 2", "'* -> +'", "dull"), "no reason"),
        (entry("value * 2", "'* -> +', '* -> +'", "nobody looks at it"), "two entries"),
        ("[[rule]]\ntext = 'prefetch('\nreason = 'a hint to the processor'\n".to_owned(), "no mutant has the text"),
        ("[[mutant]]\nfile = 'main.rs'\n".to_owned(), "missing field"),
        ("[[mutants]]\n".to_owned(), "unknown field"),
    ] {
        let error = judge(&wrong).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn changed_lines_and_the_order_of_files() {
    let text = "--- a/x\n+++ b/crates/framewright/src/buddy/buddy.rs\n@@ -3,0 +4,2 @@ fn f\n+a\n+b\n@@ -9 +11 @@\n-c\n+d\n@@ -20,2 +21,0 @@\n";
    let file = "buddy/buddy.rs".to_owned();
    let expected = [4, 5, 11].map(|line| (file.clone(), line));
    assert_eq!(lines_of_diff(text), HashSet::from(expected));
    assert!(rank("buddy/buddy.rs") < rank("pcp/pcp.rs") && rank("pcp/pcp.rs") < rank("saved/crc.rs"));
}
