//! The command as a user runs it.

mod calibrate;
mod commands;
mod compare;
mod errors;
mod escapes;
mod explain;
mod hostile;
mod machine_check;
mod messages;
mod ops;
mod output;
mod proc;
mod record;
#[path = "../replay_synthetic/mod.rs"]
mod replay_synthetic;
mod shell;
mod sim;
#[path = "../sim_samples/mod.rs"]
mod sim_samples;
mod stress;
mod sweep;
mod top;
mod transcript;
mod why;
mod written;
