//! What the loader tells: memory, the command line and the CPUs, in a flattened device tree.
//!
//! The format is that of the Devicetree Specification, version 17: a header, and tokens of 4 bytes, all big-endian. A
//! node's properties come before its children, so that the last node that began is that of a property. Three kinds of
//! nodes are looked at, by their names. `virt` describes addresses and sizes by two cells each.

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;

/// The device tree.
#[derive(Clone, Copy)]
pub(crate) struct Loaded(&'static [u8]);

/// A property of a node.
struct Property {
    node: &'static [u8],
    name: &'static [u8],
    value: &'static [u8],
}

impl Loaded {
    /// Reads the device tree at an address; `None` if there is none.
    ///
    /// # Safety
    /// `address` is the one that the loader uses, and nothing writes to the tree.
    pub(crate) unsafe fn at(address: usize) -> Option<Loaded> {
        // SAFETY: the caller's promise, and all memory is mapped. The header says how long the tree is.
        let tree = |length| Loaded(unsafe { core::slice::from_raw_parts(address as *const u8, length) });
        let header = tree(40);
        (header.word(0) == MAGIC).then(|| tree(header.word(4) as usize))
    }

    /// Returns usable memory as byte addresses, start and end.
    pub(crate) fn memory(self) -> impl Iterator<Item = (u64, u64)> {
        let ranges = self.named(b"memory@", b"reg").flat_map(|value| value.chunks_exact(16));
        ranges.map(|range| (number(&range[..8]), number(&range[..8]) + number(&range[8..])))
    }

    /// Returns memory that stays in use, as byte addresses: the device tree.
    pub(crate) fn in_use(self) -> (u64, u64) {
        let start = self.0.as_ptr() as u64;
        (start, start + self.0.len() as u64)
    }

    /// Returns the value of `name=value` on the command line.
    pub(crate) fn option(self, name: &str) -> Option<&'static str> {
        let line = core::ffi::CStr::from_bytes_until_nul(self.named(b"chosen", b"bootargs").next()?).ok()?;
        let mut words = line.to_str().ok()?.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns the CPUs' affinities.
    pub(super) fn cpus(self) -> impl Iterator<Item = u64> {
        self.named(b"cpu@", b"reg").map(number)
    }

    /// Returns the values of a property of all nodes whose names begin with `node`.
    fn named(self, node: &'static [u8], name: &'static [u8]) -> impl Iterator<Item = &'static [u8]> {
        let found = self.properties().filter(move |found| found.node.starts_with(node) && found.name == name);
        found.map(|found| found.value)
    }

    fn properties(self) -> impl Iterator<Item = Property> {
        let names = self.word(12) as usize;
        let mut at = self.word(8) as usize;
        let mut node: &[u8] = b"";
        core::iter::from_fn(move || {
            loop {
                let token = self.word(at);
                at += 4;
                match token {
                    BEGIN_NODE => {
                        node = self.text(at);
                        at += (node.len() + 1).next_multiple_of(4);
                    }
                    PROPERTY => {
                        let (length, name) = (self.word(at) as usize, self.word(at + 4) as usize);
                        let value = &self.0[at + 8..][..length];
                        at += 8 + length.next_multiple_of(4);
                        return Some(Property { node, name: self.text(names + name), value });
                    }
                    END_NODE | NOTHING => {}
                    _ => return None,
                }
            }
        })
    }

    fn word(self, at: usize) -> u32 {
        number(&self.0[at..at + 4]) as u32
    }

    /// Returns the bytes from `at` on that end before a zero.
    fn text(self, at: usize) -> &'static [u8] {
        let rest = &self.0[at..];
        rest.split(|&byte| byte == 0).next().unwrap_or(rest)
    }
}

/// Returns a number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
