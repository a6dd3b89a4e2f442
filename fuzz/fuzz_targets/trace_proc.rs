//! Files in the formats of `/proc`: no panic, and no control character in a message.
#![no_main]

use framewright_trace::error::TraceError;
use framewright_trace::proc::{BuddyInfo, KPageFlags, PageTypeInfo, VmStat, ZoneInfo};
use libfuzzer_sys::fuzz_target;

fn check<T>(result: Result<T, TraceError>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().contains(|c: char| c.is_control()))).ok()
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let zones = check(ZoneInfo::parse(&text, "input"));
    let buddyinfo = check(BuddyInfo::parse(&text, "input"));
    check(PageTypeInfo::parse(&text, "input"));
    check(VmStat::parse(&text, "input"));
    let flags = check(KPageFlags::parse(data, "input"));
    if let Some(info) = &buddyinfo {
        assert_eq!(info.differences(info), []);
    }
    if let (Some(zones), Some(flags)) = (zones, flags) {
        flags.buddyinfo(&zones, framewright::units::Order(10));
    }
});
