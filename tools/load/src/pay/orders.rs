//! What customers order: payments that are drawn the same in each run.

use super::bank::{Bank, FIRST, LEDGER, Place, account};
use super::smallbank::{Holder, Payment, Purse, Smallbank, Sum};
use crate::workload::mix;
use std::collections::VecDeque;
use synod_astro::Draft;
use synod_ledger::{AccountId, Flags, Kind, Leg, Units, UserData};

/// Transactions that are looked at for the next order.
const LOOKS: usize = 1_024;

/// What was drawn so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Drawn {
    /// Transactions: payments, pairs of them, looks at a balance.
    pub(super) transactions: u64,
    /// Those that pay somebody in another shard.
    pub(super) crossing: u64,
}

/// The orders of an institution's customers.
pub(super) enum Orders {
    /// Anybody pays anybody.
    Pay(Draw),
    /// See [`Smallbank`].
    Smallbank {
        bank: Smallbank,
        /// The next transaction.
        next: u64,
        /// Payments of one that was begun.
        begun: VecDeque<Payment>,
    },
}

impl Orders {
    pub(super) fn of(bank: &Bank, at: Place) -> Self {
        match bank.smallbank {
            Some(bank) => Self::Smallbank { bank, next: 0, begun: VecDeque::new() },
            None => Self::Pay(draw_of(bank, at)),
        }
    }

    /// The next order of a customer; `has` tells what there is in an account. None where many transactions in a row pay nothing.
    pub(super) fn next(
        &mut self,
        (bank, at): (&Bank, Place),
        transfer: u128,
        drawn: &mut Drawn,
        has: impl Fn(AccountId) -> u128,
    ) -> Option<Draft> {
        match self {
            Self::Pay(draw) => {
                let draft = payment(bank, at, draw, transfer);
                drawn.transactions += 1;
                drawn.crossing += u64::from(crosses(at.shard, &draft.kind));
                Some(draft)
            }
            Self::Smallbank { bank: smallbank, next, begun } => {
                for _ in 0..LOOKS {
                    if let Some(payment) = begun.pop_front() {
                        if let Some(draft) = written(bank, at, &payment, transfer, &has) {
                            return Some(draft);
                        }
                        continue;
                    }
                    let n = *next;
                    *next += 1;
                    if home(bank, smallbank.client(n)) != at {
                        continue;
                    }
                    let transaction = smallbank.transaction(n);
                    drawn.transactions += 1;
                    let is_crossing = transaction.payments.iter().any(|payment| smallbank.crosses(payment));
                    drawn.crossing += u64::from(is_crossing);
                    begun.extend(transaction.payments);
                }
                None
            }
        }
    }
}

/// The draw of an institution's customers.
pub(super) fn draw_of(bank: &Bank, at: Place) -> Draw {
    Draw::new(bank.number(at) as u64)
}

/// Whether it pays an account of another shard.
pub(super) fn crosses(own: u16, kind: &Kind) -> bool {
    match kind {
        Kind::Pay(leg) => leg.to.shard != own,
        Kind::MultiPay(legs) => legs.iter().any(|leg| leg.to.shard != own),
        _ => false,
    }
}

/// The institution of a client: its shard is its number's rest, as the workload has it.
fn home(bank: &Bank, client: u64) -> Place {
    let (shards, nodes) = (u64::from(bank.plan.shards), u64::from(bank.plan.nodes));
    let shard = u16::try_from(client % shards).unwrap_or_default();
    let id = u8::try_from(client / shards % nodes).unwrap_or_default();
    Place { shard, id }
}

/// The account of a holder. Each institution has a till, which is the one of its own customers.
fn held(bank: &Bank, at: Place, holder: Holder) -> AccountId {
    match holder {
        Holder::Till(_) => account(at, FIRST),
        Holder::Client { client, purse } => {
            let (shards, nodes) = (u64::from(bank.plan.shards), u64::from(bank.plan.nodes));
            let purse = match purse {
                Purse::Savings => 1,
                Purse::Checking => 2,
            };
            account(home(bank, client), FIRST + 2 * (client / shards / nodes) + purse)
        }
    }
}

/// A payment as an order; none where all of an account is to be paid and nothing is there.
fn written(
    bank: &Bank,
    at: Place,
    payment: &Payment,
    transfer: u128,
    has: impl Fn(AccountId) -> u128,
) -> Option<Draft> {
    let from = held(bank, at, payment.from);
    let leg = |(to, sum): &(Holder, Sum)| {
        let units = match sum {
            Sum::Of(units) => u128::from(*units),
            Sum::All => has(from),
        };
        (units > 0).then(|| Leg { to: held(bank, at, *to), amount: Units(units) })
    };
    let legs: Option<Vec<Leg>> = payment.legs.iter().map(leg).collect();
    let legs = legs?;
    let kind = match legs.as_slice() {
        [leg] => Kind::Pay(*leg),
        _ => Kind::MultiPay(legs.try_into().ok()?),
    };
    Some(draft(from, kind, transfer))
}

/// An order of one unit, from a customer of an institution to anybody: both drawn from `draw`.
pub(super) fn payment(bank: &Bank, at: Place, draw: &mut Draw, transfer: u128) -> Draft {
    let customers = bank.customers();
    let spender = account(at, FIRST + draw.below(customers));
    let shard = shard_of(bank, at.shard, draw);
    let id = u8::try_from(draw.below(u64::from(bank.plan.nodes))).unwrap_or(0);
    let to = Place { shard, id };
    let beneficiary = account(to, FIRST + draw.below(customers));
    // Nobody pays itself: who would pays its issuer.
    let beneficiary = if beneficiary == spender { account(to, 1) } else { beneficiary };
    draft(spender, Kind::Pay(Leg { to: beneficiary, amount: Units(1) }), transfer)
}

/// The shard of who is paid by somebody of `own`.
fn shard_of(bank: &Bank, own: u16, draw: &mut Draw) -> u16 {
    let shards = u64::from(bank.plan.shards);
    if shards == 1 {
        return own;
    }
    let drawn = match bank.plan.cross {
        None => draw.below(shards),
        Some(share) if draw.below(10_000) < u64::from(share.0) => {
            (u64::from(own) + 1 + draw.below(shards - 1)) % shards
        }
        Some(_) => u64::from(own),
    };
    u16::try_from(drawn).unwrap_or(own)
}

/// A draft that says nothing but who pays whom.
pub(super) fn draft(spender: AccountId, kind: Kind, transfer: u128) -> Draft {
    let (user_data, flags) = (UserData::default(), Flags::default());
    Draft { spender, kind, transfer, ledger: LEDGER, code: 0, user_data, flags }
}

/// Numbers that spread evenly and are the same in each run.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        let wide = u128::from(mix(self.drawn, self.seed)) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Drawn, Orders, crosses, home};
    use crate::pay::bank::{Bank, Place};
    use crate::pay::smallbank::Share;
    use crate::pay::tests::plan;
    use crate::pay::{PayPlan, Workload};
    use std::collections::BTreeSet;
    use synod_ledger::Kind;

    const MANY: u64 = 4_000;

    fn orders(plan: PayPlan, rich: u128) -> (Bank, Drawn, Vec<(Place, synod_astro::Draft)>) {
        let bank = Bank::new(plan).expect("a plan");
        let (mut drawn, mut all) = (Drawn::default(), Vec::new());
        for at in bank.places() {
            let mut orders = Orders::of(&bank, at);
            for n in 0..MANY {
                let order = orders.next((&bank, at), u128::from(n), &mut drawn, |_| rich);
                all.extend(order.map(|order| (at, order)));
            }
        }
        (bank, drawn, all)
    }

    #[test]
    fn customers_pay_from_accounts_of_their_own_institution_into_accounts_that_there_are() {
        for workload in [Workload::Pay, Workload::Smallbank] {
            let (bank, drawn, all) = orders(PayPlan { shards: 2, workload, ..plan() }, 5);
            let accounts: BTreeSet<_> =
                (0..2).flat_map(|shard| bank.genesis(shard)).map(|open| open.id).collect();
            assert_eq!(all.len() as u64, MANY * 8);
            for (at, order) in &all {
                assert_eq!((order.spender.shard, order.spender.registrar), (at.shard, u32::from(at.id)));
                let to: Vec<_> = match &order.kind {
                    Kind::Pay(leg) => vec![leg.to],
                    Kind::MultiPay(legs) => legs.iter().map(|leg| leg.to).collect(),
                    other => unreachable!("{other:?} is no payment"),
                };
                assert!(to.iter().chain([&order.spender]).all(|id| accounts.contains(id)), "{order:?}");
                assert!(to.iter().all(|to| *to != order.spender));
            }
            assert!(drawn.crossing > 0 && drawn.crossing < drawn.transactions, "{drawn:?}");
            assert!(all.iter().any(|(at, order)| crosses(at.shard, &order.kind)));
        }
    }

    #[test]
    fn the_share_between_shards_is_what_was_asked_for() {
        for workload in [Workload::Pay, Workload::Smallbank] {
            for share in [0, 1_250] {
                let cross = Some(Share(share));
                let (_, drawn, all) = orders(PayPlan { shards: 2, workload, cross, ..plan() }, 5);
                let got = drawn.crossing * 10_000 / drawn.transactions;
                assert!(got.abs_diff(u64::from(share)) < 100, "{share} was asked for, {got} came");
                let crossing = all.iter().filter(|(at, order)| crosses(at.shard, &order.kind)).count();
                assert_eq!(crossing == 0, share == 0);
            }
        }
    }

    #[test]
    fn who_has_nothing_pays_nothing_where_all_was_to_be_paid() {
        let smallbank = PayPlan { workload: Workload::Smallbank, ..plan() };
        let amounts = |all: &[(Place, synod_astro::Draft)], units| {
            let is_so = |order: &&(Place, synod_astro::Draft)| matches!(order.1.kind, Kind::Pay(leg) if leg.amount.0 == units);
            all.iter().filter(is_so).count()
        };
        assert!(amounts(&orders(smallbank, 987_654).2, 987_654) > 0);
        let (_, drawn, poor) = orders(smallbank, 0);
        assert!(amounts(&poor, 0) == 0 && drawn.transactions > poor.len() as u64, "{drawn:?}");
    }

    #[test]
    fn every_client_is_at_home_once() {
        let bank = Bank::new(PayPlan { shards: 3, workload: Workload::Smallbank, ..plan() }).expect("a plan");
        let clients = bank.customers() * 12;
        for at in bank.places() {
            let own = (0..clients).filter(|client| home(&bank, *client) == at).count() as u64;
            assert_eq!(own, bank.customers());
        }
    }
}
