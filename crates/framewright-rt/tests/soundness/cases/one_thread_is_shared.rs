//! The machine of one thread has plain cells.
use framewright::NodeId;
use framewright_rt::Solo;

fn main() {
    let machine = Solo::new(&[NodeId(0)]);
    std::thread::scope(|scope| {
        scope.spawn(|| machine.woken());
    });
}
