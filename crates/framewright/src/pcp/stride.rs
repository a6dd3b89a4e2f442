//! Loops of bulk calls over the entries of a ring.

/// Entries that bulk calls go through without a look at how many are left.
pub(crate) const STRIDE: usize = 8;

/// The end of a stride that was not finished: how many entries were.
// Cold: the compiler would otherwise write `nth` to a register before each entry.
#[cold]
#[inline(never)]
pub(crate) fn stopped(done: usize, nth: usize) -> usize {
    done.wrapping_add(nth)
}

/// Calls `each` with a slot and an item after the other until it returns `None`; returns for how many it did not.
#[inline(always)]
pub(crate) fn fill<S, T>(slots: &[S], items: &[T], mut each: impl FnMut(&S, &T) -> Option<()>) -> usize {
    let mut filled = 0_usize;
    for (slots, items) in slots.as_chunks::<STRIDE>().0.iter().zip(items.as_chunks::<STRIDE>().0) {
        for ((slot, item), nth) in slots.iter().zip(items).zip(0..) {
            if each(slot, item).is_none() {
                return stopped(filled, nth);
            }
        }
        filled = filled.wrapping_add(STRIDE);
    }
    let rest = (slots.get(filled..).unwrap_or_default(), items.get(filled..).unwrap_or_default());
    for (slot, item) in rest.0.iter().zip(rest.1) {
        if each(slot, item).is_none() {
            return filled;
        }
        filled = filled.wrapping_add(1);
    }
    filled
}
