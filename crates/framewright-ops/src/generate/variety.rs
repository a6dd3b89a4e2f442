//! The CPUs and the mechanisms of generated machines.
//!
//! Most bugs show on few CPUs and are cheapest to find there, so small numbers are drawn most often. Half of all
//! machines have the mechanisms of a preset, as users do. The others have any valid choice of each switch.

use std::ops::RangeInclusive;

use framewright::mechanisms::PRESETS;
use framewright::{Mechanisms, NodeId};

use crate::language::Shape;
use crate::rng::Rng;

/// CPUs that generated machines have.
pub const CPUS: RangeInclusive<u16> = 1..=64;

/// Upper bounds for the number of CPUs, all equally likely.
const MOST: [u16; 8] = [2, 4, 4, 4, 8, 16, 32, 64];

/// Draws a number of CPUs from `range`, on the machine's nodes.
pub fn set_cpus(rng: &mut Rng, shape: &mut Shape, range: &RangeInclusive<u16>) {
    let (least, most) = (u64::from(*range.start()).max(1), u64::from(*range.end()));
    let up_to = *rng.pick(&MOST);
    let drawn = rng.between(1, up_to.into());
    let count = if (least..=most).contains(&drawn) { drawn } else { rng.between(least, most.max(least)) } as usize;
    let nodes = shape.nodes();
    shape.cpus.truncate(count);
    while shape.cpus.len() < count {
        shape.cpus.push(NodeId(rng.below(nodes as u64) as u8));
    }
    // Fewer CPUs may be fewer nodes.
    if shape.nodes() != nodes {
        shape.distances.clear();
    }
}

/// Draws a preset, or any choice of each switch.
pub fn mechanisms(rng: &mut Rng) -> Mechanisms {
    match rng.below(8) {
        0 => return Mechanisms::DEFAULT,
        1..=3 => return rng.pick(PRESETS).1,
        _ => {}
    }
    let mut mechanisms = Mechanisms::BASELINE;
    loop {
        for switch in Mechanisms::SWITCHES {
            let choices = Mechanisms::choices(switch);
            // Names from the table itself are known.
            let _ = mechanisms.set(switch, rng.pick::<&str>(choices));
        }
        if mechanisms.conflict().is_none() {
            return mechanisms;
        }
    }
}

/// Returns whether these are a preset's.
pub fn is_preset(mechanisms: &Mechanisms) -> bool {
    PRESETS.iter().any(|(_, preset)| preset == mechanisms)
}
