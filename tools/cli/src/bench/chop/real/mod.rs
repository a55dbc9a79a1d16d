//! `--part real`: clients that sign, brokers that distil, servers that order, as processes that speak over loopback.
//!
//! A load client plays most clients; a few real ones beside it verify everything they are told and give the latency. Every
//! message pays 1 from its author to one payee, so that all messages of a client are equal but for their parity, and the
//! audit counts them by the balances that every server holds. No figure is printed before that audit has passed.

mod audit;
mod broker;
mod honest;
mod levers;
mod plan;
mod receipts;
mod report;
mod run;

pub(crate) use plan::{Enrol, RealPlan};
pub(crate) use run::run;
