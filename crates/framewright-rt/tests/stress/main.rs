//! Everything at once, on real memory.

mod arena_stress;
mod example;
mod pool;
mod stalls;

// The example's modules say `crate::stage` and the like, so they are this crate's here.
#[path = "../../examples/stress/children.rs"]
mod children;
#[path = "../../examples/stress/disturb.rs"]
mod disturb;
#[path = "../../examples/stress/gate.rs"]
mod gate;
#[path = "../../examples/stress/rest.rs"]
mod rest;
#[path = "../../examples/stress/run.rs"]
mod run;
#[path = "../../examples/stress/shadow.rs"]
mod shadow;
#[path = "../../examples/stress/stage.rs"]
mod stage;
#[path = "../../examples/stress/turns.rs"]
mod turns;
#[path = "../../examples/stress/watchdog.rs"]
mod watchdog;
#[path = "../../examples/stress/worker.rs"]
mod worker;
