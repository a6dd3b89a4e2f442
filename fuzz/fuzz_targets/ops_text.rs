//! Lists of operations: no panic, and what is read is printed as what it means.
#![no_main]

use framewright_ops::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(list) = String::from_utf8_lossy(data).parse::<Scenario>() {
        let text = list.to_string();
        assert_eq!(text.parse::<Scenario>().as_ref(), Ok(&list), "{text}");
    }
});
