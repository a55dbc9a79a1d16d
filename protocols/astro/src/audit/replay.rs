//! Entries in the order in which they settled: who endorsed them, who ordered them, and whether the money was there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::{Hash, Keys, PublicKey, Signature, verify_all};
use synod_ledger::{AccountId, Book, Entry, EntryId, Kind, Leg, Owner, Total, Verdict};
use synod_machine::broadcast::{Lot, View};
use synod_wire::Wire as _;

use super::lanes::{Carriage, Offences, Stood};
use super::violation::{Violation, What};
use crate::batch::{Auth, Header, digest_of};
use crate::cut::RootRecord;
use crate::job::owner_claim;
use crate::words::Authorized;

/// Claims that are checked as one batch.
const CLAIMS: usize = 4_096;

/// The money of a ledger as a log shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Money {
    /// Accounts.
    pub accounts: u64,
    /// All that was ever received, also from other shards.
    pub credits: Total,
    /// All that was ever paid, also to other shards.
    pub debits: Total,
    /// What accounts are owed.
    pub liabilities: Total,
    /// What issuers owe.
    pub issued: Total,
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// What is not as it has to be; the first [`super::VIOLATIONS_MAX`].
    pub violations: Vec<Violation>,
    /// How many there are.
    pub violations_count: u64,
    /// Entries, in the order in which they settled.
    pub entries: u64,
    /// Of those, what a batch is certified with; the others are, by a later one of their log.
    pub certified: u64,
    /// Of those, what no certified batch of the log carries, so that nobody's signature of it is there but that of the quorum behind it.
    pub unseen: u64,
    /// Batches.
    pub batches: u64,
    /// Certificates that hold.
    pub certificates: u64,
    /// Members' words that hold.
    pub words: u64,
    /// Certificates and words of batches that came after the log was begun.
    pub beyond: u64,
    /// The money of each ledger.
    pub money: BTreeMap<u32, Money>,
    /// The digest of each entry, by its place.
    pub(super) settled: BTreeMap<EntryId, Hash>,
    /// What was credited from other shards.
    pub(super) imported: BTreeMap<EntryId, Hash>,
    /// The shard.
    pub(super) shard: u16,
    /// Certified batches.
    pub(super) lots: BTreeMap<Lot, Header>,
    /// The states behind cuts that hold, by number.
    pub(super) cuts: BTreeMap<u64, RootRecord>,
}

impl Findings {
    /// Whether all is as it has to be.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.violations_count == 0
    }

    /// Cuts whose states the entries give, and the number of the last of them.
    #[must_use]
    pub fn cuts(&self) -> (u64, Option<u64>) {
        (self.cuts.len() as u64, self.cuts.keys().last().copied())
    }

    /// Entries of other shards that were credited; [`compare`] looks for them in the logs of those.
    #[must_use]
    pub fn imports(&self) -> u64 {
        self.imported.len() as u64
    }
}

/// Entries that are carried, on a book with all accounts open.
pub(super) struct Replay<'a> {
    pub(super) view: &'a View,
    pub(super) book: Book,
    pub(super) carriage: BTreeMap<Hash, Carriage>,
    pub(super) imports: Vec<Arc<Entry>>,
}

/// What entries moved, added up without the ledger.
#[derive(Default)]
struct Moved {
    sums: BTreeMap<AccountId, (Total, Total)>,
}

/// An owner's signature that is to be checked.
struct Owned {
    key: PublicKey,
    signatures: Vec<Signature>,
    digest: Hash,
    id: EntryId,
    record: u64,
}

impl Replay<'_> {
    pub(super) fn run(mut self, entries: &[Stood], mut offences: Offences, keys: &Keys) -> Findings {
        let mut found = Findings { shard: self.view.context.shard, ..Findings::default() };
        let (mut owned, mut moved, mut holds) = (Vec::new(), Moved::default(), BTreeMap::new());
        self.import(&mut found, &mut moved, &mut offences);
        let settled = places(entries, &mut offences);
        let endorsed = self.endorsed(entries, &settled);
        for stood in entries {
            let Stood { record, entry, digest } = stood;
            let of =
                |what| Violation::of(what).at(*record).of_entry(entry.id).showing("entry", entry.encode());
            found.entries += 1;
            if !endorsed.contains(&entry.id) {
                offences.add(of(What::Uncertified));
            }
            let carriage = self.carriage.get(digest);
            found.certified += u64::from(carriage.is_some_and(|carriage| carriage.is_certified));
            match carriage.map(|carriage| self.ordered(stood, carriage)) {
                None => found.unseen += 1,
                Some(Ordered::Yes) => {}
                Some(Ordered::No) => offences.add(of(What::Unauthorized)),
                Some(Ordered::By(by)) => owned.push(by),
            }
            match self.book.apply(entry, *digest) {
                Ok(()) => moved.add(entry, &mut holds),
                Err(code) => offences.add(of(What::Refused(code))),
            }
            if owned.len() >= CLAIMS {
                self.check(std::mem::take(&mut owned), keys, &mut offences);
            }
        }
        self.check(owned, keys, &mut offences);
        self.sums(&moved, &mut found, &mut offences);
        found.settled = settled;
        (found.violations, found.violations_count) = (offences.told, offences.count);
        found
    }

    /// Credits what came from other shards, before all else: whether it was there in time, the order of the log does not say.
    fn import(&mut self, found: &mut Findings, moved: &mut Moved, offences: &mut Offences) {
        for entry in std::mem::take(&mut self.imports) {
            match self.book.import(&entry) {
                // The lanes of several members may carry it; one credits it.
                Ok(false) => {}
                Ok(true) => {
                    found.imported.insert(entry.id, digest_of(&entry));
                    let legs = entry.legs_into(found.shard);
                    legs.for_each(|leg| moved.credit(leg.to, Total::of(leg.amount.0)));
                }
                Err(code) => {
                    let shown = Violation::of(What::Refused(code)).of_entry(entry.id);
                    offences.add(shown.showing("import", entry.encode()));
                }
            }
        }
    }

    /// Entries that a quorum endorsed, or one behind them in their log.
    fn endorsed(&self, entries: &[Stood], settled: &BTreeMap<EntryId, Hash>) -> BTreeSet<EntryId> {
        let prevs: BTreeMap<EntryId, Hash> =
            entries.iter().map(|stood| (stood.entry.id, stood.entry.prev)).collect();
        let mut endorsed = BTreeSet::new();
        // The last entry of a log comes first.
        for (id, digest) in settled.iter().rev() {
            let next = EntryId { n: id.n.saturating_add(1), ..*id };
            let is_named = endorsed.contains(&next) && prevs.get(&next) == Some(digest);
            if is_named || self.carriage.get(digest).is_some_and(|carriage| carriage.is_certified) {
                endorsed.insert(*id);
            }
        }
        endorsed
    }

    /// Whether whoever owns the account ordered the entry.
    fn ordered(&self, stood: &Stood, carriage: &Carriage) -> Ordered {
        let owner = self.book.terms(stood.entry.id.spender).map(|(terms, _)| terms.owner);
        let key = match owner {
            // The ledger refuses it, and says why.
            None => return Ordered::Yes,
            Some(Owner::Custodial(institution)) => {
                let is_carried = carriage.by.contains(&(institution, Auth::Institution));
                return if is_carried { Ordered::Yes } else { Ordered::No };
            }
            Some(Owner::SelfSigned(key) | Owner::Distilled { single: key, .. }) => key,
        };
        let signatures = carriage.by.iter().filter_map(|(_, auth)| match auth {
            Auth::Owner(signature) | Auth::Straggler(signature) => Some(*signature),
            // What owners signed together is shown by a whole batch, and not read here yet.
            Auth::Institution | Auth::Together => None,
        });
        let mut signatures: Vec<Signature> = signatures.collect();
        signatures.sort_unstable_by_key(|signature| signature.0);
        signatures.dedup();
        if signatures.is_empty() {
            return Ordered::No;
        }
        let (digest, id, record) = (stood.digest, stood.entry.id, stood.record);
        Ordered::By(Owned { key, signatures, digest, id, record })
    }

    /// Checks owners' signatures: one good one of each entry.
    fn check(&self, owned: Vec<Owned>, keys: &Keys, offences: &mut Offences) {
        let claims = owned.iter().flat_map(|of| {
            let statement = Authorized { entry: of.digest };
            of.signatures.iter().map(move |signature| owner_claim(self.view, statement, of.key, *signature))
        });
        let mut checked = verify_all(claims.collect(), keys).into_iter();
        for of in &owned {
            let good = checked.by_ref().take(of.signatures.len()).filter(Result::is_ok).count();
            if good == 0 {
                let shown = Violation::of(What::Unauthorized).at(of.record).of_entry(of.id);
                offences.add(
                    of.signatures.iter().fold(shown, |shown, one| shown.showing("signature", one.encode())),
                );
            }
        }
    }

    /// The book's sums are those of the entries, and all that was paid was received.
    fn sums(&self, moved: &Moved, found: &mut Findings, offences: &mut Offences) {
        for (id, _) in self.book.accounts() {
            let Some(standing) = self.book.standing(id) else { continue };
            let sums = moved.sums.get(&id).copied().unwrap_or_default();
            if sums != (standing.credits, standing.debits) {
                let first = EntryId { spender: id, n: standing.sequence };
                offences
                    .add(Violation::of(What::Sums).of_entry(first).showing("standing", standing.encode()));
            }
            let money = found.money.entry(standing.opening.ledger).or_default();
            money.accounts += 1;
            let add = |sum: &mut Total, more: Total| *sum = sum.checked_add(more).unwrap_or(*sum);
            add(&mut money.credits, standing.credits);
            add(&mut money.debits, standing.debits);
            add(&mut money.liabilities, standing.credits.saturating_sub(standing.debits));
            add(&mut money.issued, standing.debits.saturating_sub(standing.credits));
        }
        for (ledger, money) in &found.money {
            let across = |mut borders: Box<dyn Iterator<Item = (&synod_ledger::Border, &Total)> + '_>| {
                borders.try_fold(Total::ZERO, |sum, (border, total)| {
                    if border.ledger == *ledger { sum.checked_add(*total) } else { Some(sum) }
                })
            };
            let (came, left) =
                (across(Box::new(self.book.imported())), across(Box::new(self.book.exported())));
            let got = left.and_then(|left| money.credits.checked_add(left));
            let gave = came.and_then(|came| money.debits.checked_add(came));
            if got.is_none() || got != gave {
                offences.add(Violation::of(What::Money(*ledger)));
            }
        }
    }
}

/// Whether an entry was ordered by who may.
enum Ordered {
    Yes,
    No,
    /// If one of these signatures is good.
    By(Owned),
}

/// The digest of each entry by its place; each place once.
fn places(entries: &[Stood], offences: &mut Offences) -> BTreeMap<EntryId, Hash> {
    let mut settled: BTreeMap<EntryId, (Hash, &Arc<Entry>)> = BTreeMap::new();
    for Stood { record, entry, digest } in entries {
        if let Some((_, first)) = settled.get(&entry.id) {
            let shown = Violation::of(What::Twice).at(*record).of_entry(entry.id);
            offences.add(shown.showing("entry", first.encode()).showing("entry", entry.encode()));
            continue;
        }
        settled.insert(entry.id, (*digest, entry));
    }
    settled.into_iter().map(|(id, (digest, _))| (id, digest)).collect()
}

impl Moved {
    fn pay(&mut self, from: AccountId, to: AccountId, amount: Total) {
        let debits = &mut self.sums.entry(from).or_default().1;
        *debits = debits.checked_add(amount).unwrap_or(*debits);
        if to.shard == from.shard {
            self.credit(to, amount);
        }
    }

    fn credit(&mut self, to: AccountId, amount: Total) {
        let credits = &mut self.sums.entry(to).or_default().0;
        *credits = credits.checked_add(amount).unwrap_or(*credits);
    }

    /// Adds what an entry moves; `holds` has what was set aside.
    fn add(&mut self, entry: &Entry, holds: &mut BTreeMap<EntryId, (AccountId, Total)>) {
        let payer = entry.id.spender;
        let mut leg = |leg: &Leg| self.pay(payer, leg.to, Total::of(leg.amount.0));
        match &entry.kind {
            Kind::Pay(one) | Kind::Close(one) => leg(one),
            Kind::MultiPay(legs) => legs.iter().for_each(leg),
            Kind::Hold { to, amount, .. } => _ = holds.insert(entry.id, (*to, Total::of(amount.0))),
            Kind::Resolve { holds: ids, verdict } => {
                for (at, id) in ids.iter().enumerate() {
                    let Some((to, _)) = holds.remove(id) else { continue };
                    if let Verdict::Post(amounts) = verdict {
                        let posted = amounts.get(at).map_or(0, |amount| amount.0);
                        self.pay(id.spender, to, Total::of(posted));
                    }
                }
            }
            Kind::Rekey(_) | Kind::Move(_) | Kind::SetLimit(_) => {}
        }
    }
}

/// Holds logs of one cluster against each other: none has another entry or batch where another has one, and what was credited from a
/// shard is in its log, where that is among them.
#[must_use]
pub fn compare(logs: &[Findings]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, one) in logs.iter().enumerate() {
        for other in logs.iter().skip(at + 1).filter(|other| other.shard == one.shard) {
            let both =
                one.settled.iter().filter_map(|(id, digest)| Some((id, digest, other.settled.get(id)?)));
            for (id, ..) in both.filter(|(_, one, other)| one != other) {
                found.push(Violation::of(What::Disagree).of_entry(*id));
            }
            let both = one.lots.iter().filter_map(|(lot, header)| Some((lot, header, other.lots.get(lot)?)));
            for (lot, one, other) in both.filter(|(_, one, other)| one != other) {
                let shown = Violation::of(What::Disagree).in_lot(*lot);
                found.push(shown.showing("header", one.encode()).showing("header", other.encode()));
            }
            let both = one.cuts.iter().filter_map(|(number, root)| Some((root, other.cuts.get(number)?)));
            for (one, other) in both.filter(|(one, other)| one != other) {
                let shown = Violation::of(What::Disagree).showing("root", one.encode());
                found.push(shown.showing("root", other.encode()));
            }
        }
        for (id, digest) in &one.imported {
            let mut of_shard = logs.iter().filter(|other| other.shard == id.spender.shard).peekable();
            if of_shard.peek().is_some() && !of_shard.any(|other| other.settled.get(id) == Some(digest)) {
                found.push(Violation::of(What::Invented).of_entry(*id));
            }
        }
    }
    found.truncate(super::VIOLATIONS_MAX);
    found
}
