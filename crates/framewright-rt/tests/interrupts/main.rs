//! Signal handlers that call an allocator: those that it was told of, and others.
//!
//! A signal has one handler in a process, and tests run at once. So each test has signals of its own:
//!
//! | module | signals |
//! |---|---|
//! | `handlers` | `SIGURG`, `SIGWINCH`, `SIGIO`, `SIGPROF`, `SIGALRM`, real-time signals 5 and 6 |
//! | `plain_handlers` | `SIGVTALRM` |
//! | `step` | `SIGTRAP` |
//! | `stopped` | `SIGXCPU` |
//! | `storm` | `SIGUSR1`, `SIGUSR2`, real-time signals 1 to 4 |

mod handlers;
mod plain_handlers;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod step;
#[cfg(target_os = "linux")]
mod stopped;
mod storm;
#[path = "../../../framewright/tests/threads/mod.rs"]
mod threads;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod trap_flag;
