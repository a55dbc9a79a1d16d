//! One target per role: bytes become events, and the role's promises are checked after each.

pub mod astro;
pub mod chop;
pub mod client;
pub mod connection;
pub mod executor;
pub mod recovery;
pub mod replica;
mod seat;

use synod_crypto::{Hash, Keys, Seed};
use synod_quorum::{Epoch, Member, Roster};
use synod_wire::Drawn;

use crate::{Kind, Target};

/// The targets of this module.
pub(crate) const TARGETS: &[Target] = &[
    Target::new("role-executor", Kind::Role, executor::run, steps),
    Target::new("role-client", Kind::Role, client::run, steps),
    Target::new("role-replica", Kind::Role, replica::run, long),
    Target::new("role-connection", Kind::Role, connection::run, steps),
    Target::new("role-recovery", Kind::Role, recovery::run, steps),
    Target::new("role-chop-server", Kind::Role, chop::server::run, long),
    Target::new("role-chop-broker", Kind::Role, chop::broker::run, long),
    Target::new("role-chop-client", Kind::Role, chop::client::run, steps),
    Target::new("role-broadcast-plain", Kind::Role, astro::plain::run, long),
    Target::new("role-broadcast-signed", Kind::Role, astro::signed::run, middle),
    Target::new("role-astro", Kind::Role, astro::replica::run, long),
];

/// The cluster of all roles.
const CLUSTER: Hash = Hash([7; 32]);

/// The keys of one name, the same in every run.
fn keys(n: u8) -> Keys {
    Keys::ed25519(&Seed::new([n; 32]), [9; 32])
}

/// The roster of members 0 to 3, whose keys are named 1 to 4.
fn roster() -> Roster {
    let members = (1..=4).map(|n| Member { key: keys(n).public(), power: 1 }).collect();
    let Ok(roster) = Roster::new(Epoch(0), members) else { unreachable!("four distinct keys make a roster") };
    roster
}

fn steps(from: &mut Drawn) -> Vec<u8> {
    noise(from, 400)
}

fn middle(from: &mut Drawn) -> Vec<u8> {
    noise(from, 1_000)
}

fn long(from: &mut Drawn) -> Vec<u8> {
    noise(from, 3_000)
}

fn noise(from: &mut Drawn, most: u64) -> Vec<u8> {
    (0..from.below(most)).map(|_| from.next().to_le_bytes()[0]).collect()
}
