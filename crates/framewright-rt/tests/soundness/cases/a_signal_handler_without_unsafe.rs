//! A handler may call only what a handler may.
use framewright_rt::interrupts;

fn main() {
    let _handling = interrupts::handle(10, |_| ());
}
