//! What a replica has of cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{Applied, Book};
use synod_machine::Span;

use super::fetch::Fetch;
use crate::batch::Opened;
use crate::cut::{Beyond, Carried, CertifiedCut, Cut, CutSign, CutState, Lack, Viewed};

/// How far above the last certified number a number may be: as many terms of silence as nobody sees.
pub(super) const AHEAD_MAX: u64 = 1 << 20;
/// Silent periods after which the turn goes on.
pub(super) const SILENT_MAX: u64 = 2;

/// A cut that is to be signed.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) cut: Arc<Cut>,
    /// What has to come first.
    pub(super) lack: Option<Lack>,
    /// Whether its state is being hashed.
    pub(super) is_rooting: bool,
}

/// A certified cut, with the state behind it where it was signed here.
#[derive(Clone, Debug)]
pub(in crate::replica) struct Kept {
    pub(super) certified: CertifiedCut,
    pub(super) state: Option<Arc<CutState>>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(in crate::replica) struct Cuts {
    /// How often one is proposed; zero: never.
    pub(super) every: Span,
    pub(super) lanes: BTreeMap<u8, Carried>,
    pub(super) beyond: Beyond,
    /// The last certified one.
    pub(super) newest: Option<Arc<Kept>>,
    /// The last one whose state is here.
    pub(super) served: Option<Arc<Kept>>,
    /// The one before it, for whoever fetches it.
    pub(super) served_before: Option<Arc<Kept>>,
    /// The state of one on its way here.
    pub(super) fetch: Option<Fetch>,
    /// Periods without a certified cut.
    pub(super) silent: u64,
    /// By proposer.
    pub(super) pending: BTreeMap<u8, Pending>,
    /// Proposers whose cuts were looked at in this period.
    pub(super) tried: BTreeSet<u8>,
    /// What this node signed last, by proposer.
    pub(super) signed: BTreeMap<u8, CutSign>,
    /// The states behind these.
    pub(super) states: BTreeMap<u8, Arc<CutState>>,
    /// The last good signatures, by proposer and member.
    pub(super) votes: BTreeMap<(u8, u8), CutSign>,
    /// Members who were shown to have signed two roots for one number.
    pub(super) liars: synod_quorum::NodeSet,
}

impl Cuts {
    /// Those of a replica whose lanes have carried nothing.
    pub(in crate::replica) fn new(
        every: Span,
        lanes: impl Iterator<Item = u8>,
        book: &Book,
        window: u64,
    ) -> Self {
        let lanes = lanes.map(|lane| {
            let accounts = book.opened_by(u32::from(lane));
            (lane, Carried::new((book.shard(), lane), accounts, window))
        });
        Self {
            every,
            lanes: lanes.collect(),
            beyond: Beyond::default(),
            newest: None,
            served: None,
            served_before: None,
            fetch: None,
            silent: 0,
            pending: BTreeMap::new(),
            tried: BTreeSet::new(),
            signed: BTreeMap::new(),
            states: BTreeMap::new(),
            votes: BTreeMap::new(),
            liars: synod_quorum::NodeSet::EMPTY,
        }
    }

    /// Whether cuts are made.
    pub(in crate::replica) fn is_on(&self) -> bool {
        self.every > Span::ZERO
    }

    pub(super) const fn viewed<'a>(&'a self, book: &'a Book) -> Viewed<'a> {
        Viewed { book, lanes: &self.lanes, beyond: &self.beyond }
    }

    /// The number of the last certified cut.
    pub(in crate::replica) fn number(&self) -> u64 {
        self.newest.as_ref().map_or(0, |kept| kept.certified.cut.number)
    }

    /// The number whose turn it is here.
    pub(super) fn turn(&self) -> u64 {
        self.number().saturating_add(1).saturating_add((self.silent / SILENT_MAX).min(AHEAD_MAX - 1))
    }

    /// Whose number it is.
    pub(super) fn proposer(&self, number: u64) -> Option<u8> {
        let at = number.checked_rem(self.lanes.len() as u64)?;
        self.lanes.keys().nth(usize::try_from(at).ok()?).copied()
    }

    /// Whether a number can be certified next.
    pub(super) fn is_next(&self, number: u64) -> bool {
        number.checked_sub(self.number()).is_some_and(|ahead| ahead > 0 && ahead <= AHEAD_MAX)
    }

    /// The next batch of a lane is certified, and its accounts are open.
    pub(in crate::replica) fn carry(&mut self, source: u8, opened: &Opened, accounts: u64) {
        if self.is_on()
            && let Some(lane) = self.lanes.get_mut(&source)
        {
            lane.carry(opened, accounts);
        }
    }

    /// An entry settled.
    pub(in crate::replica) fn settled(&mut self, applied: Applied) {
        if self.is_on() {
            self.beyond.push(applied);
        }
    }

    /// Proposers of cuts that can be signed now, perhaps.
    pub(super) fn ready(&self, book: &Book) -> Vec<u8> {
        let is_here = |lack: &Lack| match lack {
            Lack::Batch(lot) => {
                self.lanes.get(&lot.source).is_some_and(|lane| lane.end().lot.sequence >= lot.sequence)
            }
            Lack::Entry(id) => book.account(id.spender).is_some_and(|account| account.sequence() >= id.n),
        };
        let ready = self.pending.iter().filter(|(_, one)| one.lack.as_ref().is_some_and(is_here));
        ready.map(|(proposer, _)| *proposer).collect()
    }

    /// A certified cut takes the place of the one before it.
    pub(super) fn certify(&mut self, certified: CertifiedCut) -> Arc<Kept> {
        let number = certified.cut.number;
        let root = certified.certificate.root;
        let state = self.state(certified.cut.proposer, root);
        let kept = Arc::new(Kept { certified, state });
        self.newest = Some(Arc::clone(&kept));
        if kept.state.is_some() {
            self.served_before = self.served.replace(Arc::clone(&kept));
        }
        self.silent = 0;
        self.pending.retain(|_, one| one.cut.number > number);
        self.states.retain(|_, state| state.record.number > number);
        self.votes.retain(|_, vote| vote.number > number);
        kept
    }

    /// The state behind a proposer's cut that was signed here, if it has this root.
    pub(super) fn state(&self, proposer: u8, root: Hash) -> Option<Arc<CutState>> {
        self.states.get(&proposer).filter(|state| state.record.digest() == root).cloned()
    }

    pub(in crate::replica) fn bytes(&self) -> u64 {
        let lanes: u64 = self.lanes.values().map(Carried::bytes).sum();
        let served = self.served.iter().chain(&self.served_before).filter_map(|kept| kept.state.as_ref());
        let states: u64 = served.chain(self.states.values()).map(|state| state.bytes()).sum();
        let pending: usize = self.pending.values().map(|one| 64 * one.cut.exceptions.len()).sum();
        let small = (self.votes.len() + self.signed.len()) * 2 * size_of::<CutSign>();
        lanes
            + self.beyond.bytes()
            + states
            + self.fetch.as_ref().map_or(0, Fetch::bytes)
            + (pending + small) as u64
    }

    pub(in crate::replica) fn bytes_max(&self, book: &Book, batch_max: u64) -> u64 {
        let members = self.lanes.len() as u64;
        let accounts = book.accounts().count() as u64;
        let steps = members * crate::cut::STEPS_MAX as u64 * batch_max * 32;
        let exceptions = (3 * members + 2) * 64 * crate::cut::EXCEPTIONS_MAX as u64;
        let states = (members + 4) * (1_024 * accounts + 128 * book.holds().count() as u64);
        steps
            + 16 * accounts
            + Beyond::bytes_max()
            + exceptions
            + states
            + members * members * 512
            + (1 << 20)
    }
}
