//! What shells and `man` are given: made for every command, and read by those who are to read it, where they are
//! installed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::transcript::{commands, run, shown, text};

/// Runs a checker on a file; says so loudly if there is none.
fn checked(checker: &[&str], file: &Path) -> Option<String> {
    let command = Command::new(checker[0]).args(&checker[1..]).arg(file).stdin(Stdio::null()).output();
    match command {
        Ok(output) => {
            let all = text(&output.stdout) + &text(&output.stderr);
            assert!(output.status.success(), "{checker:?} {}: {all}", file.display());
            Some(all)
        }
        Err(_) => {
            eprintln!("SKIPPED: {} is not installed, so {} was not checked by it", checker[0], file.display());
            None
        }
    }
}

#[test]
fn shells_read_their_completions() {
    let folder = tempfile::tempdir().unwrap();
    let shells: [(&str, &[&str]); 3] = [("bash", &["bash", "-n"]), ("zsh", &["zsh", "-n"]), ("fish", &["fish", "-n"])];
    for (shell, checker) in shells {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let script = text(&output.stdout);
        for word in ["replay", "compare", "fail-over", "will-it-scale", "skylake-2x28", "page-fault1", "no_merge"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let file = folder.path().join(shell);
        fs::write(&file, script).unwrap();
        checked(checker, &file);
    }
    for shell in ["elvish", "powershell"] {
        assert!(text(&run(&["completions", shell]).stdout).contains("framewright"), "{shell}");
    }
    let refused = ["completions", "completions tcsh"].map(|command| shown(folder.path(), command));
    insta::assert_snapshot!(refused.join("\n"));
}

/// What bash itself completes.
#[test]
fn bash_completes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions");
    fs::write(&file, run(&["completions", "bash"]).stdout).unwrap();
    let table = [
        ("compare --form", "--format"),
        ("sim --machine ivy", "ivybridge-ex-4x15"),
        ("sweep plan --workload page-fault-", "page-fault-mix"),
        ("sim --workload ml", "mlc"),
        ("replay -m tuned", "tuned-pcp"),
        ("explain --mechanisms owned", "owned-pageblocks"),
    ];
    for (typed, completed) in table {
        let words: Vec<&str> = typed.split(' ').collect();
        let complete = format!(
            "source {}; COMP_WORDS=(framewright {typed}); COMP_CWORD={}; _framewright framewright {} {}; echo \"${{COMPREPLY[@]}}\"",
            file.display(),
            words.len(),
            words[words.len() - 1],
            words[words.len() - 2]
        );
        match Command::new("bash").args(["--norc", "-c", &complete]).output() {
            Ok(output) => assert_eq!(text(&output.stdout).trim(), completed, "{}", text(&output.stderr)),
            Err(_) => eprintln!("SKIPPED: bash is not installed, so its completions were not tried"),
        }
    }
}

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let told = run(&["man", "-o", &pages.display().to_string()]);
    assert_eq!((told.status.code(), text(&told.stderr)), (Some(0), String::new()));
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for command in &commands {
        let page = page(&format!("framewright-{}.1", command.replace(' ', "-")));
        assert!(page.contains(".SH EXAMPLES") && page.contains(".SH OPTIONS"), "{command}: {page}");
    }
    insta::assert_snapshot!("a_page", page("framewright-doctor.1"));
    let files: Vec<PathBuf> = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.iter().all(|file| file.extension() == Some(OsStr::new("1"))) && files.len() == commands.len() + 1);
    for file in &files {
        // Warnings are on the error stream, the page itself is not looked at here.
        if let Some(said) = checked(&["groff", "-man", "-Tutf8", "-ww", "-z"], file) {
            assert_eq!(said, "", "{}", file.display());
        }
        checked(&["mandoc", "-T", "lint", "-W", "error"], file);
    }
    if let Some(shown) =
        checked(&["groff", "-man", "-Tascii", "-P-c", "-P-b", "-P-u"], &pages.join("framewright-compare.1"))
    {
        for part in ["framewright compare old.json new.json", "medians, changes and how sure they are", "--fail-over"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(
            shown.lines().any(|line| line.trim_start().starts_with("framewright compare runs.json --by")),
            "{shown}"
        );
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = ["man", "man -o DIR/file"].map(|command| shown(folder.path(), command));
    insta::assert_snapshot!(refused.join("\n"));
}
