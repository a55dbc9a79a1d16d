//! What cannot change its members says so.

use synod_astro::{Parameters, Profile};
use synod_ledger::Owner;
use synod_machine::{Condition, Log, Recover as _, Span};
use synod_quorum::NodeId;

use crate::crew::{Config, Machine, Town, config, join};

fn refused(change: impl Fn(&mut Parameters)) -> Option<String> {
    let mut config: Config = config(NodeId(0), 64);
    change(&mut config.parameters);
    let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
    Machine::recover(config, log).err().map(|why| why.0)
}

#[test]
fn profiles_and_cuts_that_views_do_not_go_with_are_refused_by_name() {
    assert_eq!(refused(|_| {}), None);
    let two = refused(|parameters| parameters.profile = Profile::II).expect("refused");
    assert!(two.contains("II-F alone"), "{two}");
    let cuts = refused(|parameters| parameters.checkpoint_every = Span::secs(1)).expect("refused");
    assert!(cuts.contains("no cuts"), "{cuts}");
    let wide = refused(|parameters| parameters.lane_window = 65).expect("refused");
    assert!(wide.contains("64 batches"), "{wide}");
}

#[test]
fn owners_who_sign_are_refused_unless_they_are_trusted() {
    let fault = |trusts_owners: bool, owners_sign: bool| {
        let mut config = Config { trusts_owners, ..config(NodeId(0), 64) };
        config.parameters.owners_sign = owners_sign;
        let with_owners = config.fault();
        config.genesis.retain(|opening| matches!(opening.terms.owner, Owner::Custodial(_)));
        (with_owners.is_some(), config.fault().is_some())
    };
    assert_eq!(fault(true, true), (false, false));
    assert_eq!(fault(false, true), (true, true), "accounts could be opened that owners sign for");
    assert_eq!(fault(false, false), (true, false), "the genesis has such accounts");
}

#[test]
fn whoever_joins_where_lanes_are_longer_than_members_keep_is_told_so_and_promises_nothing() {
    let mut town = Town::keeping(5, 2, 8);
    town.trade(150);
    assert!(town.until_settled(&[0, 1, 2, 3]));
    town.change(4, join(4));
    assert!(town.until_runs(&[join(4)], &[0, 1, 2, 3]));
    assert!(town.until(|world| world.users.seen[4].too_far));
    // The others go on: it counts as one that is silent.
    town.trade(10);
    assert!(town.until_settled(&[0, 1, 2, 3]));
    assert!(town.users.told[4].settled.is_empty() && town.users.seen[4].running.is_none());
}
