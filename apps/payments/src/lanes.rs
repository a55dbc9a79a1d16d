//! Payments over lanes: debits by sender, then credits by recipient (chopchop 4.10).

use core::ops::Range;

use synod_service::lanes::{Cell, Cells, Entry, Home, LaneApp, LaneTurn, NEAR, State};
use synod_service::planted;
use synod_wire::Bytes;

use crate::ledger::{Code, GRANT_END};

/// Money on its way to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    recipient: u32,
    amount: u32,
}

/// The rules of payments, for lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentLanes {
    grant: u64,
}

impl PaymentLanes {
    /// Payments in which every account opens with `grant`; `None` at 2^31 and above, which 2^32 accounts could not have.
    #[must_use]
    pub const fn new(grant: u64) -> Option<Self> {
        if grant < GRANT_END { Some(Self { grant }) } else { None }
    }

    fn debit(turn: &mut LaneTurn<'_, Self>) {
        // Senders rise, by strides that no processor foresees.
        let (mut entries, mut piece) = (turn.entries(), Vec::with_capacity(NEAR));
        turn.shard.near(entries.ahead());
        while entries.piece(&mut piece) {
            turn.shard.near(entries.ahead());
            piece.iter().for_each(|entry| Self::debit_one(turn, entry));
        }
    }

    fn debit_one(turn: &mut LaneTurn<'_, Self>, entry: &Entry) {
        let accounts = turn.layout().space(0);
        let (recipient, amount) = (entry.operation & 0xffff_ffff, entry.operation >> 32);
        let place = turn.shard.place(u64::from(entry.id));
        let code = match turn.shard.get(place).copied() {
            _ if recipient >> 28 != 0 => Code::Malformed,
            None => Code::NoAccount,
            Some(_) if recipient >= accounts.len => Code::NoAccount,
            Some(_) if amount == 0 => Code::NoAmount,
            Some(balance) if balance < amount => Code::Short,
            Some(_) => Code::Paid,
        };
        if code == Code::Paid
            && let Some(balance) = turn.shard.get_mut(place)
            && let (Ok(to), Ok(sum)) = (u32::try_from(recipient), u32::try_from(amount))
        {
            *balance -= amount;
            let credit = Credit { recipient: to, amount: sum };
            if !(planted!(C26) && Self::credit_one(turn, credit)) {
                turn.post(accounts.lane(recipient), credit);
            }
        }
        turn.answer(entry.index, code.byte());
    }

    fn credit(turn: &mut LaneTurn<'_, Self>) {
        for (piece, next) in turn.mail() {
            turn.shard.near(next.iter().map(|credit| u64::from(credit.recipient)));
            for credit in piece {
                Self::credit_one(turn, *credit);
            }
        }
    }

    /// Whether the lane holds the account.
    fn credit_one(turn: &mut LaneTurn<'_, Self>, Credit { recipient, amount }: Credit) -> bool {
        let place = turn.shard.place(u64::from(recipient));
        let balance = turn.shard.get_mut(place);
        balance.map(|balance| *balance += u64::from(amount)).is_some()
    }
}

impl LaneApp for PaymentLanes {
    const STEPS: usize = 2;
    const CELLS: &'static [usize] = &[u64::BYTES];
    const HOME: Home = Home::Sender;
    type Shard = Cells<u64>;
    type Mail = Credit;

    fn lens(&self, directory: u32) -> Vec<u64> {
        vec![u64::from(directory)]
    }

    fn open(&self, shard: &mut Cells<u64>, _: usize, keys: Range<u64>) {
        for key in keys {
            let place = shard.place(key);
            if let Some(balance) = shard.get_mut(place) {
                *balance = self.grant;
            }
        }
    }

    fn step(&self, step: usize, turn: &mut LaneTurn<'_, Self>) {
        if step == 0 { Self::debit(turn) } else { Self::credit(turn) }
    }

    /// The balance of the client of a number of four bytes, as eight bytes; empty without an account.
    fn query(&self, state: &State<Self>, question: &[u8]) -> Option<Bytes> {
        let id = u32::from_le_bytes(question.try_into().ok()?);
        let balance = balance(state, id).map(u64::to_le_bytes);
        Some(Bytes::from(balance.map_or_else(Vec::new, Vec::from)))
    }

    fn invariants(&self, state: &State<Self>) {
        let sum: u64 = state.shards().iter().flat_map(Cells::all).sum();
        assert_eq!(sum, self.grant * state.layout().space(0).len, "money is neither made nor lost");
    }
}

/// The balance of `id`; `None` without an account.
#[must_use]
pub fn balance(state: &State<PaymentLanes>, id: u32) -> Option<u64> {
    let shard = state.shard(0, u64::from(id))?;
    shard.get(shard.place(u64::from(id))).copied()
}
