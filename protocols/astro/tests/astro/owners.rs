//! A network in which institutions vouch for all: nobody signs for an account there.

use synod_astro::{Input, Output, Refusal};
use synod_crypto::Hash;
use synod_ledger::{Code, EntryId, Kind, Owner, genesis};

use crate::alone::Alone;
use crate::bank::{account, custodial, first, issuer, opening, owner, pay, signed, signing};
use crate::forge::{batch, carried, prepare};

fn own() -> Owner {
    Owner::SelfSigned(owner(account(0, 4)).public())
}

/// What was refused of the ticket, if anything was.
fn refused(alone: &Alone, wanted: u64) -> Option<Refusal> {
    alone.told.iter().find_map(|output| match output {
        Output::Refused { ticket, why } if *ticket == wanted => Some(*why),
        _ => None,
    })
}

#[test]
fn where_institutions_vouch_for_all_no_owner_has_an_account_or_pays_from_one() {
    let mut alone = Alone::custodians();
    let opens = |owner: Owner| opening(account(0, 4), owner, 0);
    alone.ask(Input::Open { ticket: 1, opening: opens(own()) });
    assert_eq!(refused(&alone, 1), Some(Refusal::Ledger(Code::Unsupported)));
    alone.ask(Input::Open { ticket: 2, opening: opens(Owner::Custodial(0)) });
    assert_eq!(refused(&alone, 2), None);
    let line = first(signing(0), pay(custodial(1), 5), 1);
    alone.ask(Input::Signed { ticket: 3, line });
    assert_eq!(refused(&alone, 3), Some(Refusal::Ledger(Code::Unsupported)));
}

#[test]
fn where_institutions_vouch_for_all_batches_open_no_owners_accounts_and_their_entries_are_left_out() {
    let mut alone = Alone::custodians();
    let funds = carried(issuer(3), 1, genesis(issuer(3)), pay(signing(3), 50), 1);
    let spent = signed(EntryId { spender: signing(3), n: 1 }, genesis(signing(3)), pay(custodial(1), 5), 2);
    let freed = carried(custodial(3), 1, genesis(custodial(3)), Kind::Rekey(own()), 3);
    let paid = batch(1, Hash::ZERO, Vec::new(), vec![funds]);
    let good = batch(2, paid.digest, Vec::new(), vec![spent, freed]);
    // One that starts again from a snapshot looks at the same.
    let mut again = alone.compacted();
    for alone in [&mut alone, &mut again, &mut Alone::new()] {
        alone.hear(3, prepare(&paid));
        alone.certify_whole(&paid);
        alone.hear(3, prepare(&good));
        // Where owners sign the same is endorsed.
        let left_out: &[u32] = if alone.parameters.owners_sign { &[] } else { &[0, 1] };
        assert_eq!(alone.lists(&good), [left_out]);
    }
    alone.certify_whole(&good);
    let theirs = opening(account(3, 4), own(), 0);
    let bad = batch(3, good.digest, vec![theirs], Vec::new());
    alone.hear(3, prepare(&bad));
    assert_eq!(alone.lists(&bad), Vec::<Vec<u32>>::new());
    assert!(!alone.blamed.is_empty());
}
