//! States behind cuts: the entries of the log that a cut counts have to give the state that a quorum signed.
//!
//! A log says of each cut how many entries of every account it counts, as far as that is not what the cut before counted. Nobody signed
//! that, and nobody has to: the root that a quorum signed commits to it.
//!
//! *Cost.* An entry is applied once, unless a cut counts less of an account than the one before, as one of a proposer that is behind may;
//! then all are applied again. The accounts of a ledger are hashed for each cut that changed one.

use std::collections::BTreeMap;

use synod_crypto::merkle::Tree;
use synod_crypto::{Keys, verify_evidence};
use synod_ledger::{AccountId, Book, EntryId, Standing, Total};
use synod_machine::broadcast::View;
use synod_wire::Wire as _;

use super::lanes::{Offences, Stood};
use super::violation::{Violation, What};
use super::words::CountedAt;
use crate::cut::{Accounts, CutCertificate, HOLDS_PER_RANGE, OpenHold, RootRecord, hold_range};

/// A certified cut of the log.
pub(super) struct Signed {
    pub(super) at: u64,
    pub(super) root: RootRecord,
    pub(super) certificate: CutCertificate,
    /// What it counts, where the cut before counts something else.
    pub(super) counted: Vec<CountedAt>,
}

impl Signed {
    fn violation(&self, what: What) -> Violation {
        let shown = Violation::of(what).at(self.at);
        shown.showing("certificate", self.certificate.encode()).showing("root", self.root.encode())
    }
}

/// The state behind one cut after the other.
pub(super) struct Roots<'a> {
    view: &'a View,
    entries: &'a [Stood],
    by: BTreeMap<EntryId, usize>,
    /// All accounts open, and nothing paid.
    fresh: &'a Book,
    book: Book,
    /// How many entries of each account that is there are applied.
    applied: BTreeMap<AccountId, u64>,
}

impl<'a> Roots<'a> {
    pub(super) fn new(view: &'a View, entries: &'a [Stood], fresh: &'a Book) -> Self {
        let mut by = BTreeMap::new();
        for (at, stood) in entries.iter().enumerate() {
            by.entry(stood.entry.id).or_insert(at);
        }
        Self { view, entries, by, fresh, book: fresh.clone(), applied: BTreeMap::new() }
    }

    /// Checks all cuts in the order of their numbers; gives the roots of those that hold.
    pub(super) fn check(
        mut self,
        mut all: Vec<Signed>,
        (keys, offences): (&Keys, &mut Offences),
    ) -> BTreeMap<u64, RootRecord> {
        all.sort_by_key(|signed| signed.root.number);
        let (mut counted, mut good) = (BTreeMap::new(), BTreeMap::new());
        for signed in all {
            for CountedAt { account, n } in &signed.counted {
                match n {
                    Some(n) => _ = counted.insert(*account, *n),
                    None => _ = counted.remove(account),
                }
            }
            if let Err(why) = self.is_signed(&signed, keys) {
                offences.add(signed.violation(What::CutCertificate(why)));
                continue;
            }
            if self.go_to(&counted).is_none() || !self.is_behind(&signed.root) {
                offences.add(signed.violation(What::CutState(signed.root.number)));
                // What was applied may be anything.
                (self.book, self.applied) = (self.fresh.clone(), BTreeMap::new());
                continue;
            }
            good.insert(signed.root.number, signed.root);
        }
        good
    }

    fn is_signed(&self, signed: &Signed, keys: &Keys) -> Result<(), String> {
        let Signed { root, certificate, .. } = signed;
        if (root.context, root.epoch) != (self.view.context, self.view.roster.epoch()) {
            return Err("it is of another view or shard".to_owned());
        }
        if !certificate.is_of(root) {
            return Err("it is of another state".to_owned());
        }
        let checked = verify_evidence(certificate.clone(), keys, self.view.cluster, &self.view.roster);
        checked.map(|_| ()).map_err(|why| why.to_string())
    }

    /// Applies what is counted; `None` where the log lacks some of it, or it cannot all have happened.
    fn go_to(&mut self, counted: &BTreeMap<AccountId, u64>) -> Option<()> {
        let is_less = |(account, had): (&AccountId, &u64)| counted.get(account).is_none_or(|now| now < had);
        if self.applied.iter().any(is_less) {
            (self.book, self.applied) = (self.fresh.clone(), BTreeMap::new());
        }
        let mut open = Vec::new();
        for (account, now) in counted {
            let had = self.applied.insert(*account, *now).unwrap_or_default();
            for n in had.saturating_add(1)..=*now {
                open.push(*self.by.get(&EntryId { spender: *account, n })?);
            }
        }
        open.sort_unstable();
        // What settled late here may have paid for what settled before: the rest is tried again until nothing more is possible.
        while !open.is_empty() {
            let before = open.len();
            open.retain(|at| {
                let stood = self.entries.get(*at);
                stood.is_none_or(|stood| self.book.apply(&stood.entry, stood.digest).is_err())
            });
            if open.len() == before {
                return None;
            }
        }
        Some(())
    }

    /// Whether the state is the one of a root record. Nodes of several shards make no cuts: nothing crosses.
    fn is_behind(&self, root: &RootRecord) -> bool {
        let mut pending: BTreeMap<AccountId, Total> = BTreeMap::new();
        let mut holds = Vec::new();
        for (id, hold) in self.book.holds() {
            let sum = pending.entry(id.spender).or_default();
            *sum = sum.checked_add(Total::of(hold.amount.0)).unwrap_or(Total::MAX);
            holds.push(OpenHold { id: *id, hold: *hold });
        }
        let stands = |account: &AccountId| {
            let standing = self.book.standing(*account)?;
            Some((standing, pending.get(account).copied().unwrap_or_default()))
        };
        let all: Option<Vec<(Standing, Total)>> = self.applied.keys().map(stands).collect();
        let Some(accounts) = all.and_then(Accounts::new) else { return false };
        let is_alone = |root: &crate::cut::LedgerRoot| root.imported.is_empty() && root.exported.is_empty();
        let signed = root.ledgers.iter().map(|of| (of.ledger, of.root, of.count));
        let ranges = Tree::new(holds.chunks(HOLDS_PER_RANGE).map(hold_range).collect());
        root.ledgers.iter().all(is_alone)
            && accounts.roots().eq(signed)
            && (root.holds, root.holds_open) == (ranges.root(), holds.len() as u64)
    }
}
