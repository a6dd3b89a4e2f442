//! Files about cgroups: no panic, no control character in a message, and paths that stay what they are.
#![no_main]

use framewright_rt::cgroup::{CgroupError, Mount, Paths, keyed, limit, number};
use libfuzzer_sys::fuzz_target;

fn check<T>(result: Result<T, CgroupError>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().contains(|c: char| c.is_control()))).ok()
}

fuzz_target!(|data: &[u8]| {
    if let Some(paths) = check(Paths::parse(data)) {
        assert!(paths.unified.into_iter().chain(paths.memory).all(|path| path.is_absolute()));
    }
    check(Mount::parse(data));
    check(keyed(data, ["high", "max"]));
    let bytes = check(number(data));
    if let Some(Some(bytes_of_limit)) = check(limit(data)) {
        assert_eq!(bytes, Some(bytes_of_limit));
    }
});
