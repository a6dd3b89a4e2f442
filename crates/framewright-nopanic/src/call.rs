//! How a kept function is made.
//!
//! `call! { fn name(argument: Type) -> Result { body } }` makes a function that the linker must keep, named
//! `framewright_call_name`. It reads its arguments from memory and writes the result back. So the compiler can assume
//! nothing of the arguments, and must compute the result.

use core::fmt::{self, Write};

/// Makes functions that the linker must keep.
macro_rules! call {
    ($( fn $name:ident($( $argument:ident: $type:ty ),* $(,)?) -> $result:ty $body:block )*) => { $(
        #[unsafe(export_name = concat!("framewright_call_", stringify!($name)))]
        extern "C" fn $name(arguments: *const ($( $type, )*), result: *mut $result) {
            // SAFETY: the caller passes a valid tuple that it does not use again, and room for the result.
            let ($( $argument, )*) = unsafe { arguments.read() };
            let value: $result = $body;
            // SAFETY: as above.
            unsafe { result.write(value) }
        }
    )* };
}

pub(crate) use call;

/// A writer of text to foreign code, which the compiler cannot see.
pub struct Sink {
    write: extern "C" fn(*const u8, usize) -> bool,
}

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if (self.write)(text.as_ptr(), text.len()) { Ok(()) } else { Err(fmt::Error) }
    }
}
