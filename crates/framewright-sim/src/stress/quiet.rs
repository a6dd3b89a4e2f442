//! Catches panics as findings, and keeps them off standard error.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Number of calls of [`catch`] under way.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static TEXT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `body`; returns the message and place of its panic as an error.
///
/// The panic that unwinds a dropped coroutine passes through.
pub(crate) fn catch<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |info| {
            if DEPTH.get() == 0 {
                return loud(info);
            }
            let owned = info.payload().downcast_ref::<String>().map(String::as_str);
            let text = owned.or(info.payload().downcast_ref::<&str>().copied()).unwrap_or("with no text");
            let place =
                info.location().map_or_else(String::new, |place| format!("{}:{}: ", place.file(), place.line()));
            TEXT.with_borrow_mut(|slot| *slot = Some(format!("panicked at {place}{text}")));
        }));
    });
    DEPTH.set(DEPTH.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(DEPTH.get() - 1);
    match (result, TEXT.take()) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(text)) => Err(text),
        (Err(payload), None) => std::panic::resume_unwind(payload),
    }
}
