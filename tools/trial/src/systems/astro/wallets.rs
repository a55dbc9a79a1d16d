//! Owners who sign for themselves: one entry per place, once what pays for it has settled at a member that tells the truth; and
//! owners who lie.

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::{Auth, Authorized, Line, Profile};
use synod_crypto::{Hash, Keys, Scope};
use synod_ledger::{AccountId, Entry, EntryId, Flags, Kind, UserData, genesis};
use synod_quorum::{Epoch, NodeId};

use super::book::Book;
use super::plan::{EURO, People};
use super::sight;
use crate::oracle::astro::{Purse, Reckoning};
use crate::oracle::weak;
use crate::systems::hotstuff::cluster;

/// Signs an entry as its owner does.
#[must_use]
pub(super) fn signed(keys: &Keys, id: EntryId, prev: Hash, kind: Kind, transfer: u128) -> (Line, Hash) {
    let flags = if pays_itself(id.spender, &kind) { Flags::ALLOW_SELF } else { Flags::default() };
    let (code, user_data) = (0, UserData::default());
    let entry = Entry { id, prev, kind, transfer, ledger: EURO, code, user_data, flags };
    let digest = sight::digest(&entry);
    let scope = Scope { cluster: cluster(), epoch: Epoch(0) };
    let claim = keys.sign(scope, NodeId(u32::MAX), Authorized { entry: digest });
    (Line { auth: Auth::Owner(claim.signature), entry: entry.into() }, digest)
}

/// Whether an entry pays its own spender.
pub(super) fn pays_itself(spender: AccountId, kind: &Kind) -> bool {
    match kind {
        Kind::Pay(leg) => leg.to == spender,
        Kind::MultiPay(legs) => legs.iter().any(|leg| leg.to == spender),
        Kind::Hold { to, .. } => *to == spender,
        _ => false,
    }
}

/// Names of orders that owners give begin here.
const NAMES: u128 = 1 << 64;
/// Chains that a lying owner remembers.
const CHAINS_MAX: usize = 6;

/// What one owner signed.
#[derive(Clone, Debug, Default)]
struct Wallet {
    lines: Vec<Line>,
    head: Option<Hash>,
    /// Money set aside that it decided over.
    decided: BTreeSet<EntryId>,
    /// Ends of the chains of an owner who lies.
    chains: Vec<(u64, Hash)>,
    asked: u32,
}

/// All owners.
pub(super) struct Wallets {
    people: People,
    all: BTreeMap<AccountId, Wallet>,
    names: u128,
}

impl Wallets {
    pub(super) fn new(people: People) -> Self {
        Self { people, all: BTreeMap::new(), names: NAMES }
    }

    /// Whether an owner who is careful signs this now: enough members have the money, the accounts and the holds that one of
    /// them tells the truth.
    pub(super) fn may_sign(&self, book: &Book, spender: AccountId, kind: &Kind) -> bool {
        let members = weak(self.people.members) as usize;
        let wallet = self.all.get(&spender);
        let lines = wallet.map_or(&[][..], |wallet| wallet.lines.as_slice());
        let taken = Reckoning::taken(kind);
        let has = |purse: &Purse| {
            let open = lines.iter().filter(|line| line.entry.id.n > purse.sequence);
            let promised: u128 = open.map(|line| Reckoning::taken(&line.entry.kind)).sum();
            taken.saturating_add(promised) <= purse.available()
        };
        // Where its representative adds what an entry spends, an owner knows what to go on from once all before it has settled.
        let can = |reckoning: &&Reckoning| {
            reckoning.purse(spender).is_some_and(|purse| match self.people.registers() {
                true => purse.sequence == lines.len() as u64 && taken <= reckoning.spendable_at_once(spender),
                false => has(purse),
            })
        };
        let paid = book.reckonings.values().filter(can).count() >= members;
        let most = (1_u128 << 96) - 1;
        let sound = |amount: u128| amount > 0 && amount <= most;
        let open = |to: &AccountId| book.is_open(*to, members);
        paid && match kind {
            Kind::Pay(leg) => sound(leg.amount.0) && open(&leg.to),
            Kind::MultiPay(legs) => legs.iter().all(|leg| sound(leg.amount.0) && open(&leg.to)),
            Kind::Hold { to, amount, .. } => {
                self.people.profile != Profile::II && sound(amount.0) && open(to)
            }
            Kind::Resolve { holds, .. } => {
                holds.iter().all(|hold| {
                    let decided = wallet.is_some_and(|wallet| wallet.decided.contains(hold));
                    book.is_held(*hold, members) && !decided
                }) && !posts_too_much(book, kind)
            }
            _ => false,
        }
    }

    /// Signs the next entry of a log.
    pub(super) fn sign(&mut self, book: &mut Book, spender: AccountId, kind: Kind) -> Line {
        self.names += 1;
        let keys = self.people.keys(spender);
        let wallet = self.all.entry(spender).or_default();
        let id = EntryId { spender, n: wallet.lines.len() as u64 + 1 };
        if let Kind::Resolve { holds, .. } = &kind {
            wallet.decided.extend(holds.iter().copied());
        }
        let last = EntryId { spender, n: wallet.lines.len() as u64 };
        let head = book.agreed.get(&last).copied().filter(|_| self.people.registers()).or(wallet.head);
        let prev = head.unwrap_or_else(|| genesis(spender));
        let (line, digest) = signed(&keys, id, prev, kind, self.names);
        wallet.head = Some(digest);
        wallet.lines.push(line.clone());
        book.facts.sign(digest);
        book.pinned.entry(spender).or_default().insert(id.n, digest);
        line
    }

    /// Two entries for one place, behind one of the chains that this owner made, or behind what settled; sometimes one more behind
    /// the second.
    pub(super) fn double(
        &mut self,
        book: &mut Book,
        spender: AccountId,
        kinds: [Kind; 2],
        at: u64,
    ) -> Vec<Line> {
        let keys = self.people.keys(spender);
        let settled = book.reckonings.values().filter_map(|of| of.purse(spender));
        let settled = settled.map(|purse| (purse.sequence, purse.head)).max_by_key(|(n, _)| *n);
        let wallet = self.all.entry(spender).or_default();
        if let Some(end) = settled.filter(|end| !wallet.chains.contains(end)) {
            wallet.chains.push(end);
        }
        let which = usize::try_from(at % (wallet.chains.len().max(1) as u64)).unwrap_or(0);
        // Half of the time where the log stands: the ends of other chains are seldom next.
        let end =
            settled.filter(|_| (at / 64).is_multiple_of(2)).or_else(|| wallet.chains.get(which).copied());
        let (n, prev) = end.unwrap_or((0, genesis(spender)));
        let (deeper, mut lines) = (at.is_multiple_of(2).then(|| kinds[0].clone()), Vec::new());
        for kind in kinds.into_iter().chain(deeper) {
            self.names += 1;
            let last = wallet.chains.last().filter(|_| lines.len() == 2);
            let (n, prev) = last.copied().unwrap_or((n, prev));
            let (line, digest) = signed(&keys, EntryId { spender, n: n + 1 }, prev, kind, self.names);
            book.facts.sign(digest);
            wallet.chains.push((n + 1, digest));
            lines.push(line);
        }
        while wallet.chains.len() > CHAINS_MAX {
            wallet.chains.remove(0);
        }
        lines
    }

    /// The entries of an owner that have not settled anywhere, first ones first, and whom to give them to next.
    pub(super) fn unsettled(&mut self, book: &Book, spender: AccountId) -> (Vec<Line>, u32) {
        let Some(wallet) = self.all.get_mut(&spender) else { return (Vec::new(), 0) };
        let lines = wallet.lines.iter().filter(|line| !book.agreed.contains_key(&line.entry.id));
        let lines: Vec<Line> = lines.take(3).cloned().collect();
        wallet.asked = wallet.asked.wrapping_add(u32::from(!self.people.registers()));
        (lines, (spender.registrar + wallet.asked) % self.people.members)
    }
}

/// Whether a verdict posts more than was set aside.
fn posts_too_much(book: &Book, kind: &Kind) -> bool {
    let Kind::Resolve { holds, verdict: synod_ledger::Verdict::Post(amounts) } = kind else { return false };
    let held = |id: &EntryId| {
        let mut all = book.reckonings.values().flat_map(Reckoning::holds);
        all.find(|(held, _)| held == id).map_or(0, |(_, held)| held.amount)
    };
    holds.iter().zip(amounts.iter()).any(|(hold, amount)| amount.0 == 0 || amount.0 > held(hold))
}
