//! What lies in a folder, or on the way there, is neither followed nor trusted.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::PathBuf;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_file_is_whole_or_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    write(&path, Access::Shared, b"one").unwrap();
    let mut file = NewFile::create(&path, Access::Shared).unwrap();
    file.write_all(b"half").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one");
    drop(file);
    assert_eq!((fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (b"one".to_vec(), 1));
    write(&path, Access::Shared, b"two").unwrap();
    assert_eq!((fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (b"two".to_vec(), 1));
}

#[test]
fn nothing_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let [victim, link, dangling] = ["victim", "link", "dangling"].map(|name| folder.path().join(name));
    fs::write(&victim, b"precious").unwrap();
    symlink(&victim, &link).unwrap();
    symlink(folder.path().join("none"), &dangling).unwrap();
    for (path, why) in [(&link, "symbolic link"), (&dangling, "symbolic link"), (&folder.path().to_owned(), "folder")] {
        let error = write(path, Access::Shared, b"mine").unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let opened = Folder::open(folder.path(), Access::Shared).unwrap();
    for name in ["link", "dangling"] {
        assert!(opened.create_new(name, Access::Shared).is_err() && opened.append(name).is_err());
        assert!(opened.read(name).is_err() && opened.make_inner(name, Access::Shared).is_err());
    }
    // One that appears after the look is replaced.
    let late = folder.path().join("late");
    let mut file = NewFile::create(&late, Access::Shared).unwrap();
    symlink(&victim, &late).unwrap();
    file.write_all(b"mine").unwrap();
    file.finish().unwrap();
    assert_eq!((fs::read(&victim).unwrap(), fs::read(&late).unwrap()), (b"precious".to_vec(), b"mine".to_vec()));
    assert!(!folder.path().join("none").exists() && fs::symlink_metadata(&late).unwrap().is_file());
}

#[test]
fn what_is_private_is_its_owners() {
    let folder = tempfile::tempdir().unwrap();
    let [inner, file, new] = ["a/b", "a/b/file", "a/b/new"].map(|name| folder.path().join(name));
    let made = Folder::make(&inner, Access::Private).unwrap();
    write(&file, Access::Private, b"").unwrap();
    drop(made.create_new("new", Access::Private).unwrap());
    assert_eq!([&inner, &file, &new].map(|path| mode(path)), [0o700, 0o600, 0o600]);
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o777)).unwrap();
    made.claim().unwrap();
    assert_eq!(mode(&inner), 0o700);
}

/// What is at a name later than the folder was opened does not matter.
#[test]
fn an_open_folder_stays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let [here, moved, other] = ["here", "moved", "other"].map(|name| folder.path().join(name));
    let opened = Folder::make(&here, Access::Private).unwrap();
    let file = NewFile::begin(&opened, "file", Access::Private).unwrap();
    fs::rename(&here, &moved).unwrap();
    fs::create_dir(&other).unwrap();
    symlink(&other, &here).unwrap();
    file.finish().unwrap();
    let inner = opened.make_inner("inner", Access::Private).unwrap();
    drop(inner.create_new("file", Access::Private).unwrap());
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0, "nothing went where the path leads now");
    assert!(moved.join("file").is_file() && moved.join("inner/file").is_file());
    assert!(opened.read("file").is_ok() && opened.read("inner").is_err());
    opened.remove_inner("inner").unwrap();
    assert_eq!(opened.names().unwrap(), ["file"]);
}

#[test]
fn missing_folders_are_made_and_own_links_followed() {
    let folder = tempfile::tempdir().unwrap();
    let [real, link] = ["real", "link"].map(|name| folder.path().join(name));
    fs::create_dir(&real).unwrap();
    symlink("real", &link).unwrap();
    Folder::make(&link.join("../link/a/./b"), Access::Shared).unwrap();
    assert!(real.join("a/b").is_dir());
    assert!(Folder::open(&real.join("c"), Access::Shared).is_err(), "opening makes nothing");
    symlink(&link, folder.path().join("loop")).unwrap();
    fs::remove_file(&link).unwrap();
    symlink("loop", &link).unwrap();
    let error = Folder::open(&link, Access::Shared).unwrap_err();
    assert!(error.to_string().contains("symbolic links"), "{error}");
    fs::write(real.join("file"), "").unwrap();
    assert!(Folder::make(&real.join("file/inner"), Access::Shared).is_err());
}

/// A user that is neither root nor the one that runs the tests. None if this user cannot give files away.
fn another(folder: &Path) -> Option<u32> {
    const ANOTHER: u32 = 54_321;
    let file = folder.join("probe");
    fs::write(&file, "").unwrap();
    let given = chown(&file, Some(ANOTHER), None);
    fs::remove_file(&file).unwrap();
    given.is_ok().then_some(ANOTHER)
}

/// Folders and links of another user are not on the way to a file, wherever they stand.
#[test]
fn a_way_that_others_can_change_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(user) = another(folder.path()) else {
        eprintln!("SKIPPED: files cannot be given to another user here");
        return;
    };
    let [theirs, ours, link] = ["theirs", "theirs/ours", "link"].map(|name| folder.path().join(name));
    fs::create_dir_all(&ours).unwrap();
    chown(&theirs, Some(user), None).unwrap();
    symlink("/", &link).unwrap();
    lchown(&link, Some(user), None).unwrap();
    let sticky = folder.path().join("sticky");
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    let in_sticky = sticky.join("theirs");
    fs::create_dir(&in_sticky).unwrap();
    chown(&in_sticky, Some(user), None).unwrap();
    let ways: [PathBuf; 4] = [theirs.clone(), ours, link.join("tmp"), in_sticky];
    for way in ways {
        for access in [Access::Shared, Access::Private] {
            let errors = [
                Folder::open(&way, access).map(drop),
                Folder::make(&way.join("new"), access).map(drop),
                write(&way.join("file"), access, b""),
                look(&way.join("file"), access),
            ];
            for error in errors {
                let error = error.unwrap_err().to_string();
                assert!(error.contains("belongs to another user (number 54321)"), "{}: {error}", way.display());
            }
        }
        assert!(!way.join("file").exists() && !way.join("new").exists());
    }
    assert!(Folder::open(&sticky, Access::Private).is_ok(), "as the system's folder for temporary files");
    // A file of another user is replaced, as its folder's owner may.
    let file = folder.path().join("file");
    fs::write(&file, "theirs").unwrap();
    chown(&file, Some(user), None).unwrap();
    write(&file, Access::Private, b"ours").unwrap();
    assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"ours".to_vec(), 0o600));
}

/// What is given away is this user's own, and no link's target.
#[test]
fn a_folder_is_given_with_its_files() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let Some(user) = another(folder.path()) else {
        eprintln!("SKIPPED: files cannot be given to another user here");
        return;
    };
    let [victim, link] = ["victim", "gift/inner/link"].map(|name| folder.path().join(name));
    let gift = Folder::make(&folder.path().join("gift/inner"), Access::Private).unwrap();
    drop(gift.create_new("file", Access::Private).unwrap());
    fs::write(&victim, "").unwrap();
    symlink(&victim, &link).unwrap();
    Folder::open(&folder.path().join("gift"), Access::Private).unwrap().give(user, user).unwrap();
    let owner = |name: &str| fs::symlink_metadata(folder.path().join(name)).unwrap().uid();
    assert_eq!(["gift", "gift/inner", "gift/inner/file", "gift/inner/link"].map(owner), [user; 4]);
    assert_ne!(owner("victim"), user);
}

#[test]
fn what_names_no_file_is_refused() {
    for path in ["", "/", "..", "/dev/null", "/dev"] {
        assert!(NewFile::create(Path::new(path), Access::Shared).is_err(), "{path}");
    }
}
