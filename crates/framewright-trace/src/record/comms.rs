//! The names of tasks, each kept once.

use std::collections::HashMap;

/// A task's name, as an index into [`Comms`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommId(pub u32);

/// The names of the tasks of one trace, each kept once.
///
/// At most [`Comms::LIMIT`] names of at most [`Comms::NAME_LIMIT`] bytes are kept. Longer names are cut. Names beyond
/// the limit are called `<...>`, ftrace's own word for a task whose name it has forgotten.
#[derive(Clone, Debug)]
pub struct Comms {
    names: Vec<Box<str>>,
    index: HashMap<Box<str>, CommId>,
}

impl Comms {
    /// The most names that are kept.
    pub const LIMIT: usize = 1 << 20;
    /// The most bytes of a name that are kept; the kernel's names have at most 15.
    pub const NAME_LIMIT: usize = 64;
    /// The name of a task without one.
    pub const UNKNOWN: &'static str = "<...>";

    /// Starts with [`Comms::UNKNOWN`] as number 0.
    pub fn new() -> Comms {
        let mut comms = Comms { names: Vec::new(), index: HashMap::new() };
        comms.intern(Comms::UNKNOWN);
        comms
    }

    /// Returns the number of `name`, a new one if it has none yet.
    pub fn intern(&mut self, name: &str) -> CommId {
        let mut end = name.len().min(Comms::NAME_LIMIT);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let name = &name[..end];
        if let Some(&id) = self.index.get(name) {
            return id;
        }
        if self.names.len() >= Comms::LIMIT {
            return CommId(0);
        }
        let id = CommId(self.names.len() as u32);
        self.names.push(name.into());
        self.index.insert(name.into(), id);
        id
    }

    /// Like [`Comms::intern`], for bytes; replaces those that are not UTF-8.
    pub(crate) fn intern_bytes(&mut self, name: &[u8]) -> CommId {
        self.intern(&String::from_utf8_lossy(&name[..name.len().min(Comms::NAME_LIMIT)]))
    }

    /// The name with this number; [`Comms::UNKNOWN`] if there is none.
    pub fn name(&self, id: CommId) -> &str {
        self.names.get(id.0 as usize).map_or(Comms::UNKNOWN, |name| name)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no name. Never true, for number 0 is always there.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl Default for Comms {
    fn default() -> Comms {
        Comms::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_cut() {
        let mut comms = Comms::new();
        let fio = comms.intern("fio");
        assert_eq!(comms.intern("fio"), fio);
        assert_eq!(comms.name(fio), "fio");
        assert_eq!(comms.intern(Comms::UNKNOWN), CommId(0));
        assert_eq!(comms.name(CommId(77)), "<...>");
        let long = "ä".repeat(40);
        let id = comms.intern(&long);
        assert_eq!(comms.name(id), "ä".repeat(32));
        let bad = comms.intern_bytes(b"a\xffb");
        assert_eq!(comms.name(bad), "a\u{fffd}b");
        assert_eq!((comms.len(), comms.is_empty()), (4, false));
    }
}
