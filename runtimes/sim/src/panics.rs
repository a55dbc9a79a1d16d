//! Panics inside a run become violations that name the place and the run's token.
//!
//! The hook is installed once per process and passes on every panic that is not inside a machine's step. Where the
//! build aborts on panic (release), the hook prints the token before the process ends.

use core::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static TOKEN: RefCell<String> = const { RefCell::new(String::new()) };
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

/// Names the run of this thread, for the text of a panic.
pub(crate) fn name_run(token: &str) {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if INSIDE.get() {
                keep(info);
            } else {
                before(info);
            }
        }));
    });
    TOKEN.with_borrow_mut(|kept| token.clone_into(kept));
}

fn keep(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("a panic without a text");
    let place = info.location().map_or_else(String::new, |l| format!(" ({}:{})", l.file(), l.line()));
    if cfg!(panic = "abort") {
        TOKEN.with_borrow(|token| eprintln!("X1 {message}{place}\nrun {token}"));
    }
    LAST.with_borrow_mut(|last| *last = format!("{message}{place}"));
}

/// Runs a step; a panic comes back as its text and place.
pub(crate) fn catch<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    let before = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(step));
    INSIDE.set(before);
    result.map_err(|_| LAST.with_borrow(Clone::clone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_a_step_comes_back_with_its_place() {
        name_run("token");
        let one = 1;
        let caught = catch(|| assert!(one == 2, "arithmetic holds"));
        let text = caught.expect_err("the step panicked");
        assert!(text.contains("arithmetic holds") && text.contains("panics.rs"), "{text}");
        assert_eq!(catch(|| 7), Ok(7));
    }
}
