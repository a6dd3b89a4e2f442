//! A header as cbindgen makes it of a crate's sources and of those that both C interfaces share.

use std::fs;
use std::path::{Path, PathBuf};

/// A crate's header: how it is made, and where it lies.
pub(crate) struct Header {
    crate_directory: PathBuf,
    name: &'static str,
}

impl Header {
    /// Returns the header of the crate that lies in `directory`.
    pub(crate) fn of(directory: &str, name: &'static str) -> Header {
        Header { crate_directory: directory.into(), name }
    }

    /// Makes the header from the sources.
    pub(crate) fn made(&self) -> String {
        let config =
            cbindgen::Config::from_file(self.crate_directory.join("cbindgen.toml")).expect("cbindgen.toml is valid");
        let [own, shared] = self.sources().map(|source| source.join("lib.rs"));
        let sources = cbindgen::Builder::new().with_src(own).with_src(shared).with_config(config);
        let mut header = Vec::new();
        sources.generate().expect("the sources are a C interface").write(&mut header);
        // Rust's heading of what a caller promises.
        let header = String::from_utf8(header)
            .expect("the header is a text")
            .replace("* # Safety\n * ", "* Promised by the caller: ");
        let in_hex = self.in_hex();
        let in_hex = |line: &str| {
            let name = line.strip_prefix("#define ")?.split_once(' ')?.0;
            let (_, digits) = in_hex.iter().find(|(constant, _)| constant == name)?;
            Some(format!("#define {name} 0x{digits}"))
        };
        header.lines().map(|line| format!("{}\n", in_hex(line).unwrap_or_else(|| line.to_owned()))).collect()
    }

    fn sources(&self) -> [PathBuf; 2] {
        ["src", "../framewright-ffi/src"].map(|folder| self.crate_directory.join(folder))
    }

    /// Returns the constants that the sources write in hexadecimal, as cbindgen does not: names and digits.
    fn in_hex(&self) -> Vec<(String, String)> {
        let files = self.sources().into_iter().flat_map(|folder| fs::read_dir(folder).expect("sources can be listed"));
        let read = |path: PathBuf| fs::read_to_string(path).expect("a source can be read");
        let texts: Vec<String> = files.map(|file| read(file.expect("sources can be listed").path())).collect();
        let constant = |line: &str| {
            let (name, value) = line.strip_prefix("pub const ")?.split_once(": u32 = 0x")?;
            Some((name.to_owned(), value.strip_suffix(';')?.replace('_', "")))
        };
        texts.iter().flat_map(|text| text.lines()).filter_map(constant).collect()
    }

    /// Fails if the header that is checked in differs; writes it with `UPDATE_HEADER=1` in the environment.
    pub(crate) fn compare(&self) {
        let (path, made) = (self.crate_directory.join("include").join(self.name), self.made());
        if std::env::var_os("UPDATE_HEADER").is_some() {
            fs::write(&path, made).expect("the header can be written");
            return;
        }
        let checked_in = fs::read_to_string(Path::new(&path)).expect("the header is checked in");
        let differing = checked_in.lines().zip(made.lines()).position(|(old, new)| old != new);
        assert!(checked_in == made, "line {differing:?} of the header differs: run the test with UPDATE_HEADER=1");
    }
}
