//! The binary `synod`.
//!
//! One tree of verbs ([`tree`]) gives the command line, its help, the completions and the manual. A verb is one
//! file under [`verbs`]; it answers through [`output`] and fails with a code of the catalogue, which [`exit`]
//! turns into text and an exit code.

#![expect(clippy::float_arithmetic, reason = "rates and means are shown to people and never decide anything")]

mod admin;
mod bench;
mod chaos;
mod cluster;
mod context;
mod demo;
mod deployment;
mod exit;
mod health;
mod http;
mod huge;
mod layout;
mod output;
mod png;
mod processor;
mod proof;
mod score;
mod serve;
mod servers;
mod session;
mod signals;
mod sources;
mod tree;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::report_bugs();
    tree::main()
}
