//! The campaign: every target in a child process whose allocator holds it to its bound. It is its own test runner,
//! because it is also the child; `cargo xtask fuzz` starts it with longer budgets.

use std::alloc::System;
use std::process::ExitCode;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Allows so many bytes more than are allocated now, or any number.
fn meter(more: Option<usize>) {
    let limit = more.map_or(usize::MAX, |more| ALLOCATOR.allocated().saturating_add(more));
    // A limit below what is allocated is refused; there is none, for the limit only adds.
    let _set = ALLOCATOR.set_limit(limit);
}

fn main() -> ExitCode {
    synod_fuzz::check::install(meter);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    synod_fuzz::drive::main(&arguments)
}
