use crate::bottom::Ground;

#[cfg(test)]
use crate::top::Own;

fn several_ways(ground: Option<&Ground>, doors: &[super::Door], tuple: (u32, Ground)) { // finds import
    if let Some(ground) = ground {
        ground.lifted(); // finds call
    }
    for door in doors {
        door.open_above(); // finds call
        // Defined here as well.
        door.shared_below();
    }
    let Ok(found) = ground.ok_or(()) else { return };
    found.lifted(); // finds call
    doors.iter().for_each(|door| door.shared()); // finds call
    let (_, inner) = tuple;
    assert_eq!(inner.lifted(), 1); // finds call
    let guard = super::Guard { ground: inner }; // finds import
    guard.lifted(); // finds call
    guard.depth();
    guard.ground.back().lifted(); // finds call
    let opaque = unknown();
    opaque.unique_above(1); // finds call
    opaque.unique_above();
    opaque.depth();
    opaque.clone();
    inner.helped(|ground| ground.lifted()); // finds call
    let _ = Ground::HEIGHT; // finds call
    let _: Vec<Ground> = (0..1).map(|_| Ground::new_above()).collect(); // finds call
    ground.map(Ground::lifted); // finds call
    #[cfg(test)]
    inner.lifted();
}

impl super::Door { // finds import
    fn shared_below(&self) {}
}

record! {
    /// A macro's struct, of which the types of the fields are known.
    pub(crate) struct Recorded<M: Machine> {
        pub(crate) record("named.{}"; index in 0..) grounds: [Ground; 2] = [1, 2],
        word count: M::U32,
        /// Last.
        fixed last: Ground,
    }
}

impl<M: Machine> Recorded<M> {
    fn walks(&self) {
        self.last.lifted(); // finds call
    }
}
