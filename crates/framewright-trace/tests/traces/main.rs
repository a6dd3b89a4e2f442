//! Traces: of several kernels, shipped, made up and hostile.

mod kernels;
mod replay_hostile;
mod replay_reclaim;
mod replay_rules;
#[path = "../../../framewright-lab/tests/replay_synthetic/mod.rs"]
mod replay_synthetic;
mod shipped_trace;
