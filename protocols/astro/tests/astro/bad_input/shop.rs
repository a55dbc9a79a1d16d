//! A correct member, who is the representative of one institution and hears the batches of two others: a correct one (1) and a liar (3).

use std::collections::BTreeMap;

use synod_astro::{Auth, Draft, Input, Line, Opened, Output, Refusal};
use synod_broadcast::Lot;
use synod_crypto::Hash;
use synod_ledger::{AccountId, Code, Entry, EntryId, Kind, Opening, Verdict, genesis};
use synod_wire::List;

use crate::alone::Alone;
use crate::bank::{digest, draft, first, issuer, pay, signing};
use crate::forge::{ALL, prepare};

/// The institution of the representative that is asked.
pub(super) const OWN: u32 = 0;
/// Another correct one, which brings about what an order waits for.
pub(super) const OTHER: u32 = 1;
/// That of the liar.
pub(super) const LIES: u32 = 3;

/// What the one who hands in an order is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// The order has a place.
    Taken,
    /// It has a place and waits for its money (profile I, SYN-3121).
    Queued,
    /// This.
    Told(Code),
    /// This, and what proves that its owner signed two entries is shown.
    Shown(Code),
    /// It has a place already, which is the answer; a node says SYN-3116 where the content differs.
    Exists,
    /// Try again later (SYN-3402).
    Busy,
    /// No order can be made of it: a node says SYN-3001 or SYN-3002.
    Undecoded,
    /// Nobody hands this in.
    Nothing,
}

/// What becomes of the liar's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// All of it is endorsed.
    Endorsed,
    /// The entry is left out and the rest of its batch is endorsed, for ever.
    LeftOut,
    /// The same, and the owner's two entries are shown.
    LeftOutAndShown,
    /// It is left out until something happens, and then endorsed in the same batch.
    LeftOutUntilCured,
    /// It takes its place and waits there (profile I).
    Waits,
    /// It takes its place and moves nothing (profile II, SYN-3122).
    Rejected,
    /// Nothing of the batch is endorsed.
    Dropped,
    /// Nothing of the batch is endorsed, and the liar is blamed for this.
    Blamed(&'static str),
    /// No representative carries this.
    Nothing,
}

/// An order that is handed in at member 0 by its customer, and carried by member 3 for its own.
#[derive(Clone, Copy)]
pub(super) struct Case {
    /// What has settled, one after the other.
    pub(super) before: fn(u32) -> Vec<Draft>,
    /// The order of a customer of this institution.
    pub(super) order: fn(u32) -> Draft,
    /// What makes the same bytes good; nothing does where there is none.
    pub(super) cure: Option<fn(&mut Shop, u32)>,
}

impl Case {
    /// Both columns.
    pub(super) fn both(&self) -> (At, From) {
        (self.at(Shop::new()), self.from(Shop::new()))
    }

    /// At the representative. A refusal changes nothing, and binds nothing where the reason may go.
    pub(super) fn at(&self, mut shop: Shop) -> At {
        for draft in (self.before)(OWN) {
            assert_eq!(shop.order(draft), At::Taken, "what comes before is good");
            shop.certify_own();
        }
        let bad = (self.order)(OWN);
        let told = shop.order(bad.clone());
        if told == At::Taken {
            return told;
        }
        assert_eq!(shop.order(bad.clone()), told, "a refusal changes nothing");
        if let Some(cure) = self.cure {
            cure(&mut shop, OWN);
            assert_eq!(shop.order(bad), At::Taken, "the same order is good now");
        }
        told
    }

    /// From a Byzantine representative, with another customer's good entry in its batch.
    pub(super) fn from(&self, mut shop: Shop) -> From {
        for draft in (self.before)(LIES) {
            shop.settle(LIES, Vec::new(), vec![draft]);
        }
        let bad = shop.line((self.order)(LIES));
        let batch = shop.carry(LIES, Vec::new(), vec![bad, good()]);
        let made = shop.made(&batch);
        if made != From::LeftOut {
            return made;
        }
        let Some(cure) = self.cure else {
            shop.alone.wait(60_000);
            return shop.made(&batch);
        };
        cure(&mut shop, LIES);
        assert_eq!(shop.alone.lists(&batch).last().map(Vec::len), Some(0), "endorsed once it is good");
        From::LeftOutUntilCured
    }
}

/// Something that another customer of the liar signs and that costs nothing.
pub(super) fn good() -> Line {
    first(signing(LIES), Kind::Move(3), 900)
}

/// An order under a name of its own.
pub(super) fn of(spender: AccountId, kind: Kind) -> Draft {
    draft(spender, kind, 7)
}

pub(super) fn pays(to: AccountId, amount: u128) -> Kind {
    pay(to, amount)
}

/// The first entry of a log that its institution carries.
pub(super) fn first_of(draft: Draft) -> Line {
    Shop::new().line(draft)
}

/// The other institution's issuer decides against a hold.
pub(super) fn decide(shop: &mut Shop, hold: EntryId) {
    shop.settle(OTHER, Vec::new(), vec![of(issuer(OTHER), voids(hold))]);
}

pub(super) fn voids(hold: EntryId) -> Kind {
    Kind::Resolve { holds: List::try_from(vec![hold]).expect("one"), verdict: Verdict::Void }
}

/// See the module.
pub(super) struct Shop {
    pub(super) alone: Alone,
    /// Where the logs are that others carry.
    tips: BTreeMap<AccountId, (u64, Hash)>,
    /// Where the lanes of others are.
    lanes: BTreeMap<u32, (u64, Hash)>,
    tickets: u64,
}

impl Shop {
    pub(super) fn new() -> Self {
        Self::of(Alone::new())
    }

    pub(super) fn of(alone: Alone) -> Self {
        Self { alone, tips: BTreeMap::new(), lanes: BTreeMap::new(), tickets: 0 }
    }

    /// The order of a customer at member 0.
    pub(super) fn order(&mut self, draft: Draft) -> At {
        self.tickets += 1;
        let ticket = self.tickets;
        self.hand(ticket, Input::Order { ticket, draft })
    }

    /// What an owner signed, given to member 0.
    pub(super) fn submit(&mut self, line: Line) -> At {
        self.tickets += 1;
        let ticket = self.tickets;
        self.hand(ticket, Input::Signed { ticket, line })
    }

    fn hand(&mut self, ticket: u64, input: Input) -> At {
        let before = self.alone.told.len();
        self.alone.ask(input);
        let told = &self.alone.told[before..];
        let is_shown = told.iter().any(|output| matches!(output, Output::Conflict { .. }));
        let answer = told.iter().find_map(|output| match output {
            Output::Accepted { ticket: of, .. } if *of == ticket => Some(At::Taken),
            Output::Refused { ticket: of, why } if *of == ticket => Some(match why {
                Refusal::Ledger(code) if is_shown => At::Shown(*code),
                Refusal::Ledger(code) => At::Told(*code),
                Refusal::Exists(_) => At::Exists,
                Refusal::Busy(ms) => {
                    assert!(*ms > 0, "it says when to try again");
                    At::Busy
                }
            }),
            _ => None,
        });
        answer.expect("every order is answered")
    }

    /// All members endorse the last batch of member 0.
    pub(super) fn certify_own(&mut self) {
        let mine = self.alone.mine();
        self.alone.certify(&mine, ALL);
    }

    /// The next entry of a log that its institution carries.
    pub(super) fn line(&mut self, draft: Draft) -> Line {
        let Draft { spender, kind, transfer, ledger, code, user_data, flags } = draft;
        let (n, prev) = self.tips.get(&spender).copied().unwrap_or((0, genesis(spender)));
        let id = EntryId { spender, n: n + 1 };
        let entry = Entry { id, prev, kind, transfer, ledger, code, user_data, flags };
        Line { entry: entry.into(), auth: Auth::Institution }
    }

    /// A batch of another member comes, and is not certified.
    pub(super) fn carry(&mut self, lane: u32, openings: Vec<Opening>, lines: Vec<Line>) -> Opened {
        let (sequence, prev) = self.lanes.get(&lane).copied().unwrap_or((0, Hash::ZERO));
        let lot = Lot { source: u8::try_from(lane).expect("few"), sequence: sequence + 1 };
        let opened = Opened::new(0, lot, prev, openings, lines);
        self.lanes.insert(lane, (lot.sequence, opened.digest));
        self.alone.hear(lane, prepare(&opened));
        opened
    }

    /// What these of another institution order settles here.
    pub(super) fn settle(&mut self, lane: u32, openings: Vec<Opening>, drafts: Vec<Draft>) -> Opened {
        let mut lines = Vec::new();
        for draft in drafts {
            let line = self.line(draft);
            self.tips.insert(line.entry.id.spender, (line.entry.id.n, digest(&line.entry)));
            lines.push(line);
        }
        self.settle_lines(lane, openings, lines)
    }

    /// The same of lines that are made already.
    pub(super) fn settle_lines(&mut self, lane: u32, openings: Vec<Opening>, lines: Vec<Line>) -> Opened {
        let opened = self.carry(lane, openings, lines);
        self.alone.certify(&opened, ALL);
        assert_eq!(self.made(&opened), From::Endorsed, "what comes before is good");
        opened
    }

    /// What became of a liar's batch, whose first entry is the bad one.
    pub(super) fn made(&self, batch: &Opened) -> From {
        let is_shown = self.alone.told.iter().any(|output| matches!(output, Output::Conflict { .. }));
        let lists = self.alone.lists(batch);
        match (lists.last().map(Vec::as_slice), self.alone.blamed.first()) {
            (None, Some(why)) => From::Blamed(why),
            (None, None) => From::Dropped,
            (Some(_), Some(why)) => unreachable!("{why}: blamed for a batch that is endorsed"),
            (Some([]), None) => From::Endorsed,
            (Some([0]), None) if is_shown => From::LeftOutAndShown,
            (Some([0]), None) => From::LeftOut,
            (Some(others), None) => unreachable!("{others:?}: the good entry is left out"),
        }
    }
}
