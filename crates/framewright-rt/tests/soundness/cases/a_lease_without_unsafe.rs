//! A lease that is given up under a pin has two owners.
use framewright::NodeId;
use framewright_rt::Native;

fn main() {
    Native::new(&[NodeId(0)]).give_up_lease();
}
