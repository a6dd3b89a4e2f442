//! An arena's files over its socket: their contents, the askers, and the files left in the file system.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use framewright::request::GFP_USER;
use framewright::{NodeId, Request};
use framewright_rt::export::{ExportReason, FetchReason, fetch, fetch_nodes};
use framewright_rt::{Arena, Export, Placement, ReportFile};

use crate::forked::in_child;
use rustix::fs::{FlockOperation, flock};

const MIB: u64 = 1 << 20;

/// Two nodes, and no background thread.
fn arena() -> Arena {
    let builder = Arena::builder().node(16 * MIB, Placement::Anywhere).node(16 * MIB, Placement::Anywhere);
    builder.without_background().build().unwrap()
}

fn files() -> Vec<ReportFile> {
    let of_nodes = [NodeId(0), NodeId(1)].into_iter().flat_map(ReportFile::of_node);
    ReportFile::OF_ALL.into_iter().chain(of_nodes).collect()
}

/// A folder, and a socket's path in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arena.sock");
    (folder, path)
}

/// Returns the answer to these bytes.
fn raw(path: &Path, question: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(question).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn every_file_comes_whole() {
    let (arena, (_folder, path)) = (arena(), place());
    let _pages: Vec<_> = (0..5).map(|order| arena.alloc(&Request::new(GFP_USER, order)).unwrap()).collect();
    let export = arena.export(&path).unwrap();
    assert!(export.is_running() && export.path() == path);
    for file in files() {
        let text = fetch(&path, file).unwrap();
        assert_eq!(Some(&text), file.text(arena.source()).as_ref(), "{file}");
        assert_eq!(raw(&path, format!("{file}\n").as_bytes()), format!("ok {}\n{text}", text.len()));
    }
    assert_eq!(fetch_nodes(&path).unwrap(), [NodeId(0), NodeId(1)]);
    assert_eq!(fetch(&path, ReportFile::Online).unwrap(), "0-1\n");
}

#[test]
fn what_is_not_there_is_said() {
    let (arena, (_folder, path)) = (arena(), place());
    let _export = arena.export(&path).unwrap();
    let names = "there are buddyinfo, pagetypeinfo, zoneinfo, vmstat, unusable_index, extfrag_index, online, \
                 and of each node N: nodeN/numastat, nodeN/vmstat\n";
    assert_eq!(raw(&path, b"zone\x1b[2Jinfo\n"), format!("error: there is no file 'zone\\x1b[2Jinfo'; {names}"));
    assert_eq!(raw(&path, b"\n"), format!("error: there is no file ''; {names}"));
    assert_eq!(raw(&path, b"node2/vmstat\n"), "error: there is no node2/vmstat: nodes are 0-1\n");
    let error = fetch(&path, ReportFile::NumaStat(NodeId(7))).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no node7/numastat from {}: there is no node7/numastat: nodes are 0-1", path.display())
    );
    drop(arena);
    assert_eq!(raw(&path, b"vmstat\n"), "error: the allocator is gone\n");
}

#[test]
fn rude_askers_hold_nobody_up_for_long() {
    let (arena, (_folder, path)) = (arena(), place());
    let _export = arena.export(&path).unwrap();
    let ask = |question: &[u8]| {
        let mut stream = UnixStream::connect(&path).unwrap();
        // It may be hung up on while it speaks.
        let _ = stream.write_all(question);
        stream
    };
    // Askers that hang up before, inside or after the question; that say too much; that never read; that say nothing.
    drop(ask(b""));
    drop(ask(b"zone"));
    drop(ask(b"zoneinfo\n"));
    let flood = ask(&[b'z'; 1 << 16]);
    let deaf: Vec<UnixStream> = (0..20).map(|_| ask(b"zoneinfo\n")).collect();
    let mute = ask(b"");
    assert_eq!(fetch(&path, ReportFile::ZoneInfo).unwrap(), ReportFile::ZoneInfo.text(arena.source()).unwrap());
    drop((flood, deaf, mute));
}

/// More askers than have a place say nothing, and read nothing: each of the others is answered all the same.
///
/// An asker that is kept waiting would be given up on by `fetch`.
#[test]
fn silent_askers_keep_nobody_out() {
    let (arena, (_folder, path)) = (arena(), place());
    let _export = arena.export(&path).unwrap();
    let mut silent = Vec::new();
    for round in 0..4 {
        for _ in 0..50 {
            let mut asker = UnixStream::connect(&path).unwrap();
            // Half a question, a whole one without a reader, or nothing.
            let said: &[u8] = match round {
                0 => b"",
                1 => b"zone",
                2 => b"zoneinfo\n",
                _ => b"\x1b[2J\0",
            };
            let _ = asker.write_all(said);
            silent.push(asker);
        }
        assert_eq!(fetch(&path, ReportFile::Online).unwrap(), "0-1\n", "after {} silent askers", silent.len());
    }
    // In the end all of them have been hung up on.
    for mut asker in silent {
        let _ = asker.read_to_end(&mut Vec::new());
    }
}

/// An asker that reads a byte at a time gets the whole file, also if others come and go meanwhile.
#[test]
fn a_slow_reader_gets_the_whole_file() {
    let (arena, (_folder, path)) = (arena(), place());
    let _export = arena.export(&path).unwrap();
    let mut slow = UnixStream::connect(&path).unwrap();
    slow.write_all(b"zoneinfo\n").unwrap();
    let mut have = Vec::new();
    for byte in std::io::BufReader::with_capacity(1, slow).bytes() {
        have.push(byte.unwrap());
        if have.len().is_multiple_of(1000) {
            drop(UnixStream::connect(&path).unwrap());
        }
    }
    let text = ReportFile::ZoneInfo.text(arena.source()).unwrap();
    assert_eq!(String::from_utf8(have).unwrap(), format!("ok {}\n{text}", text.len()));
}

/// Whatever the umask says, no other user may connect.
#[test]
fn a_socket_is_its_users_alone() {
    let (arena, (_folder, path)) = (arena(), place());
    // In a child, because a umask is the process's.
    assert!(in_child(|| {
        rustix::process::umask(rustix::fs::Mode::empty());
        let export = arena.export(&path).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fetch(&path, ReportFile::Online).is_ok());
        drop(export);
    }));
}

/// What took a socket's place while it was exported is not removed with it.
#[test]
fn what_replaced_a_socket_stays() {
    let (folder, other) = place();
    let arena = arena();
    let replace: [fn(&Path, &Path); 4] = [
        |path, _| fs::write(path, "mine").unwrap(),
        |path, _| fs::create_dir(path).unwrap(),
        |path, other| symlink(other, path).unwrap(),
        |path, _| drop(UnixListener::bind(path).unwrap()),
    ];
    let _elsewhere = arena.export(&other).unwrap();
    for (number, replace) in replace.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.sock"));
        let export = arena.export(&path).unwrap();
        fs::remove_file(&path).unwrap();
        replace(&path, &other);
        drop(export);
        assert!(fs::symlink_metadata(&path).is_ok(), "{number}");
        // Nor is it taken for a socket that nobody listens at; the last one is.
        let again = arena.export(&path);
        assert_eq!(again.is_ok(), number == 3, "{again:?}");
        assert!(number == 3 || matches!(again.unwrap_err().reason, ExportReason::NotASocket));
    }
    // A link that leads nowhere is no free path either.
    let dangling = folder.path().join("dangling");
    symlink(folder.path().join("none"), &dangling).unwrap();
    assert!(matches!(arena.export(&dangling).unwrap_err().reason, ExportReason::NotASocket));
    assert!(!folder.path().join("none").exists() && fetch(&other, ReportFile::Online).is_ok());
}

#[test]
fn readers_and_threads_that_allocate_do_not_meet() {
    let (arena, (_folder, path)) = (arena(), place());
    let export = arena.export(&path).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2_u64 {
            let (arena, over) = (&arena, &over);
            scope.spawn(move || {
                let mut held = Vec::new();
                for turn in (seed..).take_while(|_| !over.load(Relaxed)) {
                    if held.len() > 200 {
                        held.drain(..150);
                    }
                    held.extend(arena.alloc(&Request::new(GFP_USER, (turn % 4) as u8)));
                }
            });
        }
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| (0..10).for_each(|_| read_all(&path)))).collect();
        let read: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        over.store(true, Relaxed);
        assert!(read.into_iter().all(|read| read.is_ok()));
    });
    drop(export);
    assert!(arena.validate().unwrap().is_conserved());
}

/// Reads every file, and checks that no more is free than exists.
fn read_all(path: &Path) {
    for file in files() {
        let text = fetch(path, file).unwrap();
        assert!(text.ends_with('\n'), "{file}: {text:?}");
        if file == ReportFile::NodeVmStat(NodeId(0)) {
            let free: u64 = text.lines().next().unwrap().strip_prefix("nr_free_pages ").unwrap().parse().unwrap();
            assert!(free <= 4096, "{text}");
        }
    }
}

#[test]
fn a_socket_is_there_as_long_as_its_export() {
    let (arena, (folder, path)) = (arena(), place());
    let export = arena.export(&path).unwrap();
    let other = arena.export(&path).unwrap_err();
    assert!(matches!(other.reason, ExportReason::Live), "{other}");
    assert!(other.to_string().ends_with("arena.sock: a process listens there; end it, or name another path"));
    drop(export);
    assert!(!path.exists());
    assert!(matches!(fetch(&path, ReportFile::VmStat).unwrap_err().reason, FetchReason::Failed(_)));

    // A process that was killed leaves its socket.
    drop(UnixListener::bind(&path).unwrap());
    let stale = fetch(&path, ReportFile::VmStat).unwrap_err();
    assert!(matches!(stale.reason, FetchReason::Stale), "{stale}");
    let export = arena.export(&path).unwrap();
    assert!(fetch(&path, ReportFile::VmStat).is_ok());

    // Another program's file in its place stays.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    drop(export);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert!(matches!(arena.export(&path).unwrap_err().reason, ExportReason::NotASocket));
    assert!(matches!(fetch(&path, ReportFile::VmStat).unwrap_err().reason, FetchReason::NotASocket));

    let long = folder.path().join("a".repeat(200));
    let error = arena.export(&long).unwrap_err();
    assert!(matches!(error.reason, ExportReason::PathTooLong(length) if length > 200), "{error}");
    assert!(matches!(fetch(&long, ReportFile::VmStat).unwrap_err().reason, FetchReason::PathTooLong(_)));
    let nowhere = arena.export(folder.path().join("none/arena.sock")).unwrap_err();
    assert!(nowhere.to_string().contains("No such file or directory"), "{nowhere}");
}

#[test]
fn a_relative_path_is_where_it_was_named() {
    let (arena, (folder, _)) = (arena(), place());
    let name = PathBuf::from(format!("framewright-export-{}.sock", std::process::id()));
    let export = arena.export(&name).unwrap();
    assert!(export.path().is_absolute() && export.path().ends_with(&name));
    drop((export, folder));
    assert!(!name.exists());
}

#[test]
fn a_child_leaves_the_parents_socket_alone() {
    let (arena, (folder, path)) = (arena(), place());
    let mut export = Some(arena.export(&path).unwrap());
    let own = folder.path().join("child.sock");
    assert!(in_child(|| {
        let inherited = export.take().unwrap();
        assert!(!inherited.is_running());
        drop(inherited);
        assert!(path.exists());
        let export = arena.export(&own).unwrap();
        assert!(fetch(&own, ReportFile::ZoneInfo).is_ok() && fetch(&path, ReportFile::ZoneInfo).is_ok());
        drop(export);
    }));
    assert!(path.exists() && !own.exists() && fetch(&path, ReportFile::BuddyInfo).is_ok());
}

/// Others that listen where an export should.
#[test]
fn strange_answers_are_told_apart() {
    let answer = |bytes: &'static [u8]| {
        let (_folder, path) = place();
        let listener = UnixListener::bind(&path).unwrap();
        let other = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 7];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(bytes).unwrap();
        });
        let result = fetch(&path, ReportFile::VmStat);
        other.join().unwrap();
        result.map_err(|error| error.reason)
    };
    assert_eq!(answer(b"ok 3\na\nb and more").unwrap(), "a\nb");
    assert!(matches!(answer(b"ok 10\na\nb"), Err(FetchReason::Half)));
    assert!(matches!(answer(b"error: not today\n"), Err(FetchReason::Refused(reason)) if reason == "not today"));
    for nonsense in
        [&b""[..], b"\n", b"ok\n", b"ok -1\n", b"ok 99999999999\n", b"ok 2\n\xff\xff", b"220 mail.example ESMTP\r\n"]
    {
        assert!(matches!(answer(nonsense), Err(FetchReason::Nonsense)), "{}", nonsense.escape_ascii());
    }
}

/// An allocator without an arena can be exported too.
#[test]
fn any_source_can_be_exported() {
    let (arena, (_folder, path)) = (std::sync::Arc::new(arena()), place());
    let shared = std::sync::Arc::clone(&arena);
    let export = Export::start(&path, move |look| look(shared.source())).unwrap();
    assert!(fetch(&path, ReportFile::PageTypeInfo).unwrap().starts_with("Page block order: "));
    drop(export);
    assert_eq!(std::sync::Arc::strong_count(&arena), 1, "the thread has ended");
}

/// An exporter replaces a socket without a listener only while no other exporter can.
#[test]
fn exporters_of_one_path_take_turns() {
    let (arena, (folder, path)) = (arena(), place());
    drop(UnixListener::bind(&path).unwrap()); // nobody listens
    let lock = fs::File::open(folder.path()).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    thread::scope(|scope| {
        let late = scope.spawn(|| arena.export(&path));
        // Far longer than it takes; it does not end while another has its turn.
        for _ in 0..100 {
            assert!(!late.is_finished(), "{:?}", late.join());
            thread::sleep(Duration::from_millis(2));
        }
        fs::remove_file(&path).unwrap();
        let _listener = UnixListener::bind(&path).unwrap();
        flock(&lock, FlockOperation::Unlock).unwrap();
        let refused = late.join().unwrap().unwrap_err();
        assert!(matches!(refused.reason, ExportReason::Live), "{refused}");
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no lock is left behind");
}

#[test]
fn one_of_many_exporters_has_the_path() {
    let (_folder, path) = place();
    let arenas: Vec<Arena> = (0..4).map(|_| arena()).collect();
    for stale in [true, false].repeat(100) {
        let _ = fs::remove_file(&path);
        if stale {
            drop(UnixListener::bind(&path).unwrap());
        }
        let start = std::sync::Barrier::new(arenas.len());
        let exports: Vec<_> = thread::scope(|scope| {
            let export = |arena: &Arena| {
                start.wait();
                arena.export(&path)
            };
            let threads: Vec<_> = arenas.iter().map(|arena| scope.spawn(move || export(arena))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(exports.iter().filter(|export| export.is_ok()).count(), 1, "{exports:?}");
        assert!(fetch(&path, ReportFile::Online).is_ok(), "the one that has it answers");
        assert!(
            exports
                .iter()
                .filter_map(|export| export.as_ref().err())
                .all(|error| matches!(error.reason, ExportReason::Live))
        );
        drop(exports);
        assert!(!path.exists());
    }
}

/// A source of the embedder's that panics is told to the asker, and the next one is answered.
#[test]
fn a_source_that_panics_is_not_the_end() {
    let (_folder, path) = place();
    let arena = std::sync::Arc::new(arena());
    let (shared, asked) = (std::sync::Arc::clone(&arena), AtomicBool::new(false));
    let export = Export::start(&path, move |look| {
        assert!(asked.swap(true, SeqCst), "the first time");
        look(shared.source());
    });
    let export = export.unwrap();
    let refused = fetch(&path, ReportFile::Online).unwrap_err();
    assert!(matches!(&refused.reason, FetchReason::Refused(reason) if reason.contains("panicked")), "{refused}");
    assert_eq!(fetch(&path, ReportFile::Online).unwrap(), "0-1\n");
    assert!(export.is_running());
}
