//! The kernel's files about cgroups, as bytes.
//!
//! Paths are bytes that need not be UTF-8. A reader stops at the first line that it does not understand, and names it.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Limits of version 1 from here on are none: the largest multiple of a page below 2⁶³, for pages of up to 64 KiB.
const NO_LIMIT: u64 = (i64::MAX as u64) & !0xffff;

/// A file about cgroups that cannot be read or understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CgroupError {
    /// The file; empty where only its text is known.
    pub file: PathBuf,
    /// Number of the line, from 1 on; 0 for the whole file.
    pub line: usize,
    /// The reason.
    pub reason: String,
}

impl CgroupError {
    fn at(line: usize, reason: &str) -> CgroupError {
        CgroupError { file: PathBuf::new(), line, reason: reason.into() }
    }
}

impl fmt::Display for CgroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display().to_string().escape_debug())?;
        if self.line != 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for CgroupError {}

/// Lines with their numbers; an empty one at the end is none.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = text.split(|&byte| byte == b'\n').filter(move |_| !text.is_empty());
    lines.enumerate().map(|(index, line)| (index + 1, line))
}

/// The cgroups of a process, as `/proc/self/cgroup` names them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Paths {
    /// In the hierarchy of version 2.
    pub unified: Option<PathBuf>,
    /// In the hierarchy of version 1 that has the memory controller.
    pub memory: Option<PathBuf>,
}

impl Paths {
    /// Reads lines of the form `number:controllers:path`.
    ///
    /// # Errors
    /// A line has another form.
    pub fn parse(text: &[u8]) -> Result<Paths, CgroupError> {
        let mut paths = Paths::default();
        for (number, line) in lines(text) {
            let mut fields = line.splitn(3, |&byte| byte == b':');
            let (Some(id), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(CgroupError::at(number, "expected number:controllers:path"));
            };
            if id.is_empty() || !id.iter().all(u8::is_ascii_digit) || !path.starts_with(b"/") {
                return Err(CgroupError::at(number, "expected a number first, and an absolute path last"));
            }
            let path = || Some(PathBuf::from(OsString::from_vec(path.to_vec())));
            if id == b"0" && controllers.is_empty() {
                paths.unified = path();
            } else if controllers.split(|&byte| byte == b',').any(|name| name == b"memory") {
                paths.memory = path();
            }
        }
        Ok(paths)
    }
}

/// A mounted hierarchy of cgroups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Path of the cgroup that is mounted.
    pub root: PathBuf,
    /// Directory that it is mounted at.
    pub point: PathBuf,
    /// Whether it is the hierarchy of version 2.
    pub is_unified: bool,
}

impl Mount {
    /// Finds, in `/proc/self/mountinfo`, the hierarchies that may have the memory controller.
    ///
    /// # Errors
    /// A line has no mount point or no type.
    pub fn parse(text: &[u8]) -> Result<Vec<Mount>, CgroupError> {
        let mut mounts = Vec::new();
        for (number, line) in lines(text) {
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
            let wrong = || CgroupError::at(number, "expected a mount, its optional fields, `-` and its type");
            // The optional fields come before the separator.
            let dash = fields.iter().skip(6).position(|&field| field == b"-").ok_or_else(wrong)? + 6;
            let [kind, _, options] = fields.get(dash + 1..dash + 4).ok_or_else(wrong)? else { return Err(wrong()) };
            let is_unified = *kind == b"cgroup2";
            let has_memory = *kind == b"cgroup" && options.split(|&byte| byte == b',').any(|name| name == b"memory");
            if is_unified || has_memory {
                let [root, point] = [fields[3], fields[4]].map(|field| PathBuf::from(unescape(field)));
                mounts.push(Mount { root, point, is_unified });
            }
        }
        Ok(mounts)
    }
}

/// Replaces `\` and three octal digits by their byte, as mountinfo writes blanks and newlines.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = |digits: &[u8]| {
            let digit = |byte: &u8| (b'0'..=b'7').contains(byte).then(|| u32::from(byte - b'0'));
            let value = digits.iter().try_fold(0, |value, byte| Some(value * 8 + digit(byte)?))?;
            u8::try_from(value).ok()
        };
        match after.get(..3).filter(|_| first == b'\\').and_then(octal) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// Reads a file with one number.
///
/// # Errors
/// It has anything else.
pub fn number(text: &[u8]) -> Result<u64, CgroupError> {
    decimal(text.trim_ascii()).ok_or_else(|| CgroupError::at(1, "expected a number"))
}

/// Reads a file with one limit in bytes: a number or `max`. `None` is no limit.
///
/// # Errors
/// It has anything else.
pub fn limit(text: &[u8]) -> Result<Option<u64>, CgroupError> {
    if text.trim_ascii() == b"max" {
        return Ok(None);
    }
    Ok(Some(number(text)?).filter(|&bytes| bytes < NO_LIMIT))
}

/// Reads the numbers of some keys from lines of a key and a number; 0 for keys that are not there.
///
/// # Errors
/// The line of such a key has no number.
pub fn keyed<const N: usize>(text: &[u8], keys: [&str; N]) -> Result<[u64; N], CgroupError> {
    let mut found = [0; N];
    for (line_number, line) in lines(text) {
        let (key, value) = match line.iter().position(|&byte| byte == b' ') {
            Some(blank) => (&line[..blank], &line[blank + 1..]),
            None => (line, &[][..]),
        };
        if let Some(at) = keys.iter().position(|wanted| wanted.as_bytes() == key) {
            found[at] = decimal(value).ok_or_else(|| CgroupError::at(line_number, "expected a key and a number"))?;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_among_all_hierarchies() {
        type Found = (Option<&'static str>, Option<&'static str>);
        let cases: [(&[u8], Result<Found, usize>); 14] = [
            (b"", Ok((None, None))),
            (b"0::/\n", Ok((Some("/"), None))),
            (b"0::/user.slice/a:b/c d\n", Ok((Some("/user.slice/a:b/c d"), None))),
            (b"0::/../other", Ok((Some("/../other"), None))),
            (b"4:memory:/x\n0::/y\n", Ok((Some("/y"), Some("/x")))),
            (b"4:cpu,memory,pids:/x\n", Ok((None, Some("/x")))),
            (b"9:name=memory:/x\n3:memory2:/y\n", Ok((None, None))),
            (b"0::/gone (deleted)\n", Ok((Some("/gone (deleted)"), None))),
            (b"0:/\n", Err(1)),
            (b"0::/\nx::/\n", Err(2)),
            (b"0::relative\n", Err(1)),
            (b"::/\n", Err(1)),
            (b"\n0::/\n", Err(1)),
            (b"0::/\n\xff\xfe\n", Err(2)),
        ];
        for (text, expected) in cases {
            let parsed = Paths::parse(text).map_err(|error| error.line);
            let path = |path: Option<&str>| path.map(PathBuf::from);
            let expected = expected.map(|(unified, memory)| Paths { unified: path(unified), memory: path(memory) });
            assert_eq!(parsed, expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn mounts_are_found_by_type_and_controller() {
        let mount = |root: &str, point: &str, is_unified| Mount { root: root.into(), point: point.into(), is_unified };
        type Found = Result<Vec<Mount>, usize>;
        let cases: [(&[u8], Found); 9] = [
            (b"", Ok(vec![])),
            (b"22 1 0:20 / / rw - ext4 /dev/vda rw\n", Ok(vec![])),
            (
                b"30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
                Ok(vec![mount("/", "/sys/fs/cgroup", true)]),
            ),
            (
                b"35 31 0:32 /box /m\\040y rw - cgroup none rw,memory\n36 31 0:33 / /c rw - cgroup none rw,cpu\n",
                Ok(vec![mount("/box", "/m y", false)]),
            ),
            (b"30 22 0:26 / /g rw a:1 b:2 c:3 - cgroup2 x rw\n", Ok(vec![mount("/", "/g", true)])),
            (b"30 22 0:26 / /a\\134\\9x\\400 rw - cgroup2 x rw\n", Ok(vec![mount("/", "/a\\\\9x\\400", true)])),
            (b"30 22 0:26 / /g rw cgroup2 x rw\n", Err(1)),
            (b"30 22 0:26 / /g rw - cgroup2\n", Err(1)),
            (b"30 22 0:26 / /g rw - cgroup2 x rw\nshort\n", Err(2)),
        ];
        for (text, expected) in cases {
            assert_eq!(Mount::parse(text).map_err(|error| error.line), expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn numbers_limits_and_keys() {
        let limits: [(&[u8], Option<Option<u64>>); 12] = [
            (b"max\n", Some(None)),
            (b"max", Some(None)),
            (b"0\n", Some(Some(0))),
            (b"1048576\n", Some(Some(1 << 20))),
            (b"9223372036854771712\n", Some(None)),
            (b"9223372036854710272\n", Some(None)),
            (b"18446744073709551615\n", Some(None)),
            (b"18446744073709551616\n", None),
            (b"-1\n", None),
            (b"+1\n", None),
            (b"\n", None),
            (b"12 13\n", None),
        ];
        for (text, expected) in limits {
            assert_eq!(limit(text).ok(), expected, "{}", text.escape_ascii());
        }
        assert_eq!(number(b" 7 \n").unwrap(), 7);
        assert!(number(b"max\n").is_err());
        let events = b"low 0\nhigh 3\nmax 4\noom 0\n";
        assert_eq!(keyed(events, ["max", "high", "none"]).unwrap(), [4, 3, 0]);
        assert_eq!(keyed(b"odd\nmax\n", ["max"]).unwrap_err().line, 2);
        assert_eq!(keyed(b"max 1 2\n", ["max"]).unwrap_err().line, 1);
        assert_eq!(keyed(b"other \xff\n", ["max"]).unwrap(), [0]);
    }

    #[test]
    fn errors_name_file_line_and_reason() {
        let error = CgroupError { file: "/a\nb".into(), ..CgroupError::at(3, "expected a number") };
        assert_eq!(error.to_string(), "/a\\nb:3: expected a number");
        assert_eq!(CgroupError { line: 0, ..error }.to_string(), "/a\\nb: expected a number");
    }
}
