//! Two allocators over the same descriptors.
use framewright::{Allocator, Config, Layout, NodeId, Region};
use framewright_rt::{Native, Storage};

fn main() {
    let (map, nodes) = ([Region::usable(0, 4_096, 0)], [NodeId(0)]);
    let config = Config::new(&map, &nodes);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let one = Allocator::boot(Native::new(&nodes), &config, storage.parts()).unwrap();
    let other = Allocator::boot(Native::new(&nodes), &config, storage.parts()).unwrap();
    drop((one, other));
}
