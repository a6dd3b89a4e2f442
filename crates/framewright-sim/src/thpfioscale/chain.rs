//! A doubly linked list in an array: each entry has the numbers of its neighbours.

/// No entry.
pub(super) const NIL: u32 = u32::MAX;

/// An entry's neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    prev: u32,
    next: u32,
}

impl Links {
    /// The neighbours of an entry on no list.
    pub(super) const NONE: Links = Links { prev: NIL, next: NIL };
}

/// An entry of a list.
pub(super) trait Linked {
    fn links(&mut self) -> &mut Links;
}

/// The ends of a list, and its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) len: u64,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain { head: NIL, tail: NIL, len: 0 };

    pub(super) fn push_first(&mut self, entries: &mut [impl Linked], entry: u32) {
        let first = std::mem::replace(&mut self.head, entry);
        self.len += 1;
        *entries[entry as usize].links() = Links { prev: NIL, next: first };
        match entries.get_mut(first as usize) {
            Some(first) => first.links().prev = entry,
            None => self.tail = entry,
        }
    }

    pub(super) fn push_last(&mut self, entries: &mut [impl Linked], entry: u32) {
        let last = std::mem::replace(&mut self.tail, entry);
        self.len += 1;
        *entries[entry as usize].links() = Links { prev: last, next: NIL };
        match entries.get_mut(last as usize) {
            Some(last) => last.links().next = entry,
            None => self.head = entry,
        }
    }

    pub(super) fn remove(&mut self, entries: &mut [impl Linked], entry: u32) {
        let Links { prev, next } = *entries[entry as usize].links();
        self.len -= 1;
        match entries.get_mut(prev as usize) {
            Some(prev) => prev.links().next = next,
            None => self.head = next,
        }
        match entries.get_mut(next as usize) {
            Some(next) => next.links().prev = prev,
            None => self.tail = prev,
        }
    }
}
