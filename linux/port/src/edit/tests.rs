//! Tests of editing, on a small tree that is made up here.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::anchor::matches;
use super::c_text::definitions;
use super::*;

const C_FILE: &str = r#"// A made-up file.
#include <made_up.h>

static int warm(struct kettle *kettle);

/* warm() { in a comment } */
static int warm(struct kettle *kettle)
{
	const char *brace = "warm(}{";
	int heat = 0;

	if (kettle->full) {
		heat = boil(kettle,
			    kettle->level);
	}
	return heat;
}

#ifdef CONFIG_TEAPOT
int pour(struct kettle *kettle) __must_hold(kettle->lock)
{
#ifdef CONFIG_SLOW
	if (slow(kettle)) {
#else
	if (fast(kettle)) {
#endif
		tilt(kettle);
	}
	return warm(kettle);
}
#else
int pour(struct kettle *kettle)
{
	return warm(kettle);
}
#endif

void rinse(void) { wash(); }

void broken(void)
{
	if (1) {
}
"#;

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir_all(tree.path().join("mm")).expect("a folder");
    fs::create_dir_all(tree.path().join("include/linux")).expect("a folder");
    fs::write(tree.path().join("Makefile"), "# made up\nVERSION = 6\nPATCHLEVEL = 1\n").expect("a file");
    fs::write(tree.path().join("mm/kettle.c"), C_FILE).expect("a file");
    tree
}

fn edit(fields: &str) -> String {
    format!("[[edit]]\nfile = \"mm/kettle.c\"\n{fields}\n")
}

/// The file after the edits, in a form that shows only changed lines.
fn changed_lines(edits: &str) -> String {
    let tree = tree();
    let list = EditList::parse(edits, "edits.toml").expect("a list");
    let plan = match Plan::new(&list, tree.path()) {
        Ok(plan) => plan,
        Err(error) => return error.to_string(),
    };
    plan.apply(tree.path(), &Ours::default()).expect("an edited tree");
    let after = fs::read_to_string(tree.path().join("mm/kettle.c")).expect("the file");
    let (before, after): (Vec<&str>, Vec<&str>) = (C_FILE.lines().collect(), after.lines().collect());
    let same = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
    let rest = before.iter().rev().zip(after.iter().rev()).take_while(|(old, new)| old == new).count();
    let until = |lines: usize| (lines - rest.min(lines - same)).max(same);
    let mut shown = format!("{}\n", Summary(&plan));
    for line in &before[same..until(before.len())] {
        shown += &format!("-{line}\n");
    }
    for line in &after[same..until(after.len())] {
        shown += &format!("+{line}\n");
    }
    shown
}

#[test]
fn each_place() {
    let places = [
        "function = \"warm\"\nanchor = \"heat = boil(kettle, kettle->level)\"\nplace = \"before\"\n\
            text = '''\n#ifdef A\nif (cold)\n\tlight();\n#endif\n'''",
        "function = \"warm\"\nanchor = \"heat = boil( kettle\"\nplace = \"after\"\ntext = 'x();'\noptional = true",
        "function = \"warm\"\nanchor = \"heat = boil(kettle, kettle->level)\"\nplace = \"after\"\ntext = 'x();'",
        "function = \"warm\"\nanchor = \"boil(kettle,\"\nplace = \"replace\"\ntext = 'simmer(kettle,'",
        "function = \"pour\"\nanchor = \"return warm(kettle);\"\noccurrence = 2\nplace = \"before\"\ntext = 'x();'",
        "function = \"warm\"\nplace = \"at-start\"\ntext = 'x();'",
        "function = \"pour\"\noccurrence = 1\nplace = \"at-end\"\ntext = 'x();'",
        "place = \"at-end\"\ntext = 'int x;'",
        "place = \"at-start\"\ntext = '// x'",
        "function = \"rinse\"\nanchor = \"wash(); \"\nplace = \"replace\"\ntext = ''",
        "anchor = \"A made-up\"\nplace = \"after\"\ntext = '// x'\nsince = \"6.2\"",
        "anchor = \"A made-up\"\nplace = \"after\"\ntext = '// x'\nsince = \"5.19\"\nuntil = \"6.1\"",
    ];
    let shown: Vec<String> = places.iter().map(|fields| changed_lines(&edit(fields))).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn edits_at_one_place_keep_their_order() {
    let one = |text: &str| edit(&format!("anchor = \"int heat = 0;\"\nplace = \"after\"\ntext = '{text}'"));
    insta::assert_snapshot!(changed_lines(&(one("first();") + &one("second();"))));
}

#[test]
fn all_problems_are_reported_at_once() {
    let problems = [
        "function = \"cool\"\nanchor = \"x\"\nplace = \"before\"\ntext = 'x();'",
        "function = \"broken\"\nanchor = \"if\"\nplace = \"before\"\ntext = 'x();'",
        "function = \"pour\"\nplace = \"at-end\"\ntext = 'x();'",
        "function = \"pour\"\nplace = \"at-end\"\ntext = 'x();'\noccurrence = 3",
        "anchor = \"nowhere\"\nplace = \"before\"\ntext = 'x();'",
        "function = \"warm\"\nanchor = \"heat = boil(kettle, 0)\"\nplace = \"before\"\ntext = 'x();'",
        "anchor = \"return   warm(kettle);\"\nplace = \"before\"\ntext = 'x();'",
        "anchor = \"tilt(\"\noccurrence = 2\nplace = \"before\"\ntext = 'x();'",
        "anchor = \"tilt(kettle)\"\nplace = \"replace\"\ntext = 'x()'",
        "anchor = \"(kettle); } return\"\nplace = \"replace\"\ntext = 'x();'",
        "anchor = \"tilt(\"\nplace = \"before\"\ntext = 'x();'",
    ];
    let mut list: String = problems.iter().map(|fields| edit(fields)).collect();
    list += "[[edit]]\nfile = \"mm/missing.c\"\nanchor = \"x\"\nplace = \"before\"\ntext = \"x\"\n";
    let tree = tree();
    let list = EditList::parse(&list, "edits.toml").expect("a list");
    let error = Plan::new(&list, tree.path()).expect_err("problems");
    insta::assert_snapshot!(error);
    assert_eq!(is_edited(tree.path()), None);
}

#[test]
fn lists_that_contradict_themselves() {
    let wrong = [
        "place = \"before\"\ntext = 'x'",
        "place = \"after\"\nanchor = ' '\ntext = 'x'",
        "place = \"at-end\"\nanchor = 'x'\ntext = 'x'",
        "place = \"before\"\nanchor = 'x'\ntext = 'x'\noccurrence = 0",
        "place = \"before\"\nanchor = 'x'\ntext = 'x'\nsince = '6.2'\nuntil = '6.1'",
        "place = \"before\"\nanchor = 'x'\ntext = ' '",
        "place = \"before\"\nanchor = 'x'\ntext = 'x'\nfunction = 'a b'",
    ];
    let mut list: String = wrong.iter().map(|fields| edit(fields)).collect();
    list += "[[edit]]\nfile = \"../x\"\nplace = \"at-end\"\ntext = \"x\"\n";
    let mut shown = EditList::parse(&list, "edits.toml").expect_err("faults").to_string();
    for form in ["since = 'six'", "since = '6'", "where = 1"] {
        let fields = format!("place = \"at-end\"\ntext = 'x'\n{form}");
        shown += &format!("\n\n{}", EditList::parse(&edit(&fields), "edits.toml").expect_err("no list"));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_tree_is_edited_once() {
    let tree = tree();
    let list = EditList::parse(&edit("place = \"at-end\"\ntext = 'int x;'"), "edits.toml").expect("a list");
    let kernel = tempfile::tempdir().expect("a temporary directory");
    for name in ["framewright.c", "framewright_part.h", "framewright.h", "rust.o"] {
        fs::write(kernel.path().join(name), name).expect("a file");
    }
    let ours = Ours::of(kernel.path(), Some(kernel.path().join("rust.o"))).expect("the files");
    let plan = Plan::new(&list, tree.path()).expect("a plan");
    plan.apply(tree.path(), &ours).expect("an edited tree");
    let read = |file: &str| fs::read_to_string(tree.path().join(file)).expect(file);
    assert_eq!(read("mm/framewright.c"), "framewright.c");
    assert_eq!(read("mm/framewright_part.h"), "framewright_part.h");
    assert_eq!(read("include/linux/framewright.h"), "framewright.h");
    assert_eq!(read("mm/framewright_rust.o_shipped"), "rust.o");
    assert!(read("mm/kettle.c").ends_with("}\nint x;\n"));
    let error = plan.apply(tree.path(), &ours).expect_err("edited already").to_string();
    assert!(error.contains(".framewright-edits exists"), "{error}");
}

#[test]
fn nothing_is_written_if_a_file_cannot_be_prepared() {
    let tree = tree();
    fs::remove_dir(tree.path().join("include/linux")).expect("a folder");
    let header = tree.path().join("Makefile");
    let ours = Ours(vec![(header, "include/linux/framewright.h".to_owned())]);
    let list = EditList::parse(&edit("place = \"at-end\"\ntext = 'int x;'"), "edits.toml").expect("a list");
    let plan = Plan::new(&list, tree.path()).expect("a plan");
    let error = plan.apply(tree.path(), &ours).expect_err("no folder for the header").to_string();
    assert!(error.starts_with("cannot write"), "{error}");
    assert_eq!(fs::read_to_string(tree.path().join("mm/kettle.c")).expect("the file"), C_FILE);
    let left: Vec<_> = fs::read_dir(tree.path().join("mm")).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_directory_that_is_no_tree() {
    let tree = tempfile::tempdir().expect("a temporary directory");
    fs::write(tree.path().join("Makefile"), "all:\n").expect("a file");
    let error = Plan::new(&EditList::default(), tree.path()).expect_err("no tree").to_string();
    assert!(error.ends_with("sets no VERSION and PATCHLEVEL: this is no source tree of Linux"), "{error}");
    let missing = Plan::new(&EditList::default(), Path::new("/nonexistent")).expect_err("no tree").to_string();
    assert!(missing.starts_with("cannot read /nonexistent/Makefile"), "{missing}");
}

proptest! {
    /// Arbitrary text, and text of what the search looks at, never makes the search panic or leave the text.
    #[test]
    fn searching_never_panics(
        text in prop_oneof![
            "\\PC*",
            "([a-f{}()#;\"'/*\\\\\n\t é]|warm|#if|#else|#endif|//|/\\*|\\*/){0,80}",
        ],
        anchor in "[a-f{} é(]{0,6}",
    ) {
        for found in matches(&text, &anchor) {
            prop_assert!(text.get(found).is_some());
        }
        for function in definitions(&text, "warm").found {
            prop_assert!(text.get(function.whole).is_some());
            prop_assert!(text.get(function.body).is_some());
        }
        for place in [Place::Before, Place::After, Place::Replace, Place::AtStart, Place::AtEnd] {
            let edit = Edit {
                file: "a.c".to_owned(),
                function: Some("warm".to_owned()),
                anchor: Some(anchor.clone()),
                occurrence: Some(1),
                place,
                text: "x();\n".to_owned(),
                since: None,
                until: None,
                optional: false,
            };
            for function in [None, Some("warm".to_owned())] {
                if let Ok(replacement) = place::place(&Edit { function, ..edit.clone() }, 1, &text) {
                    prop_assert!(text.get(replacement.range).is_some());
                }
            }
        }
        let _ = EditList::parse(&text, "arbitrary");
    }
}
