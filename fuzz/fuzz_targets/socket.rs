//! Both sides of an export's socket: whatever an asker says, it gets one whole answer, and the next asker too; whatever
//! a server answers, nothing reaches a terminal that would obey it.
#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use framewright_rt::Arena;
use framewright_rt::export::{Export, FetchReason, ReportFile, fetch};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// Pieces of a question.
    Question(Vec<&'a [u8]>),
    /// All that a server says.
    Answer(&'a [u8]),
    /// A file of this text, and a length that may be wrong.
    File { text: &'a str, longer: i8 },
}

struct Stage {
    folder: TempDir,
    _arena: Arena,
    _export: Export,
    answers: Sender<Vec<u8>>,
}

fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let folder = TempDir::new().expect("a folder");
        let arena = Arena::builder().size(1 << 20).without_background().build().expect("an arena");
        let export = arena.export(folder.path().join("ours")).expect("an export");
        let listener = UnixListener::bind(folder.path().join("theirs")).expect("a socket");
        let (answers, coming) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            for answer in coming {
                let (mut stream, _) = listener.accept().expect("an asker");
                // The asker may hang up before all is said.
                let _ = stream.write_all(&answer);
            }
        });
        Stage { folder, _arena: arena, _export: export, answers }
    })
}

/// Whether a text is one line, or a file of ours.
fn is_plain(text: &str, is_file: bool) -> bool {
    !text.contains(|c: char| c.is_control() && !(is_file && matches!(c, '\n' | '\t')))
}

fn ask(pieces: &[&[u8]]) {
    let path = stage().folder.path().join("ours");
    let mut stream = UnixStream::connect(&path).expect("an export takes every asker");
    for piece in pieces {
        // It may have heard enough.
        let _ = stream.write_all(piece);
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = String::new();
    // A question that was too long is answered and then reset, with the answer lost or not.
    match stream.read_to_string(&mut answer) {
        Ok(_) => {
            let (head, file) = answer.split_once('\n').expect("an answer has a first line");
            match head.strip_prefix("ok ") {
                Some(length) => assert_eq!(length.parse(), Ok(file.len())),
                None => assert!(head.starts_with("error: ") && file.is_empty() && is_plain(head, false), "{head:?}"),
            }
        }
        Err(_) => assert!(pieces.iter().map(|piece| piece.len()).sum::<usize>() > 64),
    }
    assert_eq!(fetch(&path, ReportFile::Online).expect("the next asker is answered"), "0\n");
}

fn hear(answer: Vec<u8>, wanted: Option<&str>) {
    stage().answers.send(answer).expect("the server lives");
    match fetch(stage().folder.path().join("theirs"), ReportFile::VmStat) {
        Ok(text) => assert!(is_plain(&text, true) && wanted.is_none_or(|wanted| wanted == text)),
        Err(error) => {
            assert!(!matches!(error.reason, FetchReason::Late), "a server that hangs up is no slow one");
            assert!(is_plain(&error.reason.to_string(), false));
            assert!(!wanted.is_some_and(|wanted| is_plain(wanted, true)), "{error}");
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    match input {
        Input::Question(pieces) => ask(&pieces),
        Input::Answer(bytes) => hear(bytes.to_vec(), None),
        Input::File { text, longer } => {
            let length = text.len().saturating_add_signed(longer.into());
            let answer = format!("ok {length}\n{text}");
            hear(answer.into_bytes(), text.get(..length));
        }
    }
});
