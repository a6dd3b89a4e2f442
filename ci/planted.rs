//! One use of each function that `clippy.toml` disallows, and of each macro that prints.
//!
//! `ci/clippy.sh` checks this file as a crate of its own. The lint must find every line, or the check itself is broken.

#![allow(unused_must_use)]

use std::os::unix::{fs as unix, net};

pub fn planted() {
    std::fs::write("file", "");
    std::fs::copy("file", "other");
    std::fs::rename("file", "other");
    std::fs::hard_link("file", "other");
    std::fs::create_dir("folder");
    std::fs::create_dir_all("folder");
    std::fs::DirBuilder::new();
    std::fs::File::create("file");
    std::fs::File::create_new("file");
    std::fs::File::options();
    std::fs::OpenOptions::new();
    let _ = std::fs::set_permissions::<&str>;
    unix::symlink("file", "link");
    unix::chown("file", None, None);
    unix::lchown("file", None, None);
    net::UnixListener::bind("socket");
    net::UnixDatagram::bind("socket");
    std::io::stdout();
    std::io::stderr();
    println!("text");
    eprintln!("text");
}
