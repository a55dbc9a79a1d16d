//! What corrupted members do that needs to know HotStuff: lies are well formed and signed with the liar's own keys.
//!
//! A [`Liar`] plays its moves on every call of the honest machine inside it. Strategies that need no protocol come
//! from the simulator.

mod asking;
mod ballots;
mod flooding;
mod forging;
mod hiding;
mod leading;
mod levers;
mod liar;
mod serving;
mod undercutting;
mod voting;

pub(crate) use liar::{Secrets, UNFINISHED, of, sealed, signed, undercuts};
pub(crate) use undercutting::Turns;
