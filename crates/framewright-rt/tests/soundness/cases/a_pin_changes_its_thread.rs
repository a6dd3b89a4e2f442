//! A pin is its thread's.
use framewright::NodeId;
use framewright::machine::Machine;
use framewright_rt::Native;

fn main() {
    let machine = Native::new(&[NodeId(0)]);
    let pin = machine.pin();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(pin));
    });
}
