//! That memory is nobody else's is the caller's promise.
use std::ptr::NonNull;

use framewright_rt::Arena;

fn main() {
    let memory = NonNull::from(vec![0_u8; 16 << 20].leak());
    let _arena = Arena::builder().build_in(memory);
}
