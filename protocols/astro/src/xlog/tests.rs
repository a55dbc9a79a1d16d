//! Open ends of logs under entries of two chains.

use synod_ledger::{Digests, Entry, Flags, Kind, Leg, Units, UserData};
use synod_machine::testing::pick;
use synod_wire::Drawn;

use super::*;
use crate::batch::Auth;

const ANNA: AccountId = AccountId { shard: 0, registrar: 1, local: 1 };

/// The first entries of Anna's log; `which` tells chains apart from a place on.
fn chain(count: u64, fork: u64, which: u128) -> Vec<Slot> {
    let mut prev = genesis(ANNA);
    let slots = (1..=count).map(|n| {
        let entry = Entry {
            id: EntryId { spender: ANNA, n },
            prev,
            kind: Kind::Pay(Leg { to: ANNA, amount: Units(1) }),
            transfer: if n < fork { 0 } else { which },
            ledger: 1,
            code: 0,
            user_data: UserData::default(),
            flags: Flags::default(),
        };
        let digest = Digests::default().entry(&entry);
        prev = digest;
        let line = Line { entry: entry.into(), auth: Auth::Institution };
        Slot { line, digest, debit: Total::of(1), is_certified: false, lots: Lots::default() }
    });
    slots.collect()
}

/// The tip, by a walk.
fn walked(xlog: &Xlog, base: Base) -> (u64, Hash) {
    let mut tip = (base.sequence, base.head);
    while let Some(slot) = xlog.slot(tip.0 + 1).filter(|slot| slot.line.entry.prev == tip.1) {
        tip = (tip.0 + 1, slot.digest);
    }
    tip
}

/// Entries of two chains that part somewhere are accepted, certified and settled as it comes.
#[test]
fn the_tip_that_is_kept_is_the_one_that_a_walk_finds_and_certificates_that_contradict_change_nothing() {
    let mut refused = 0;
    for seed in 0..800 {
        let (mut drawn, descends) = (Drawn::new(seed), seed % 2 == 0);
        let fork = 1 + drawn.below(8);
        let chains = [chain(8, fork, 1), chain(8, fork, 2)];
        let (mut xlog, mut base) = (Xlog::default(), Base { sequence: 0, head: genesis(ANNA) });
        for _ in 0..60 {
            let slot = chains[pick(&mut drawn, 2)][pick(&mut drawn, 8)].clone();
            let n = slot.line.entry.id.n;
            let (tip, head) = xlog.tip(base);
            match drawn.below(3) {
                // As the ledger accepts: behind the tip, and below nothing.
                0 if tip + 1 == n
                    && slot.line.entry.prev == head
                    && xlog.slots().all(|slot| slot.line.entry.id.n < n) =>
                {
                    xlog.put(base, slot);
                }
                1 if n > base.sequence => {
                    let before = xlog.clone();
                    if xlog.certify(base, slot, (None, descends)).0 == Certified::Contradicts {
                        assert_eq!(xlog, before);
                        refused += 1;
                    }
                }
                2 => {
                    let next = xlog.next(base).map(|slot| slot.line.entry.id.n);
                    if let Some(settled) = next.and_then(|n| xlog.settled(n)) {
                        assert_eq!(settled.line.entry.prev, base.head, "what settles continues the log");
                        base = Base { sequence: base.sequence + 1, head: settled.digest };
                    }
                }
                _ => {}
            }
            assert_eq!(xlog.tip(base), walked(&xlog, base), "seed {seed}");
            xlog.assert_sound(base, 8, descends);
        }
    }
    assert!(refused > 400, "{refused} certificates contradicted others");
}
