//! The representative of owners who sign together: trees of entries that wait, what their owners are asked, and what they give
//! (specification, section 4.5, distilled). See [`crate::together`].
//!
//! *Order.* Trees leave in the order in which they were made, each as one batch, so that the entries of a log stay in theirs.
//!
//! *Bounds.* [`TREES_MAX`] trees, each of at most one batch, and orders that wait count as those of the desk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_crypto::bls::StoredKey;
use synod_ledger::{AccountId, Owner};
use synod_machine::{Span, Turn};

use super::{Carrier, Replica, compute};
use crate::batch::{Auth, Content, Line};
use crate::job::Work;
use crate::together::{Invitation, Points, Shared, Signer, leaves};
use crate::trace::Rule;
use crate::words::{Output, Timer};

/// Trees under way at most.
const TREES_MAX: usize = 16;
/// Trees under way while which an entry waits for others.
const FLIGHTS: usize = 2;
/// Entries of a tree behind which the next one is not made at once.
const BUSY: usize = 128;
/// Which part of [`crate::Parameters::distil`] an entry waits for others at most before its tree is made.
const GATHER: u64 = 2;
/// Keys that one job reads at most.
const KEYS_PER_JOB: usize = 8_192;
/// Bytes that one owner takes in a tree.
const OWNER_BYTES: usize = 1_024;

/// Entries whose owners are asked to sign them together.
#[derive(Clone, Debug)]
struct Tree {
    lines: Vec<(Line, Hash)>,
    /// The key of each owner.
    keys: BTreeMap<AccountId, [u8; 48]>,
    /// Once it is made.
    root: Option<Hash>,
    /// What owners gave, unchecked.
    shares: BTreeMap<AccountId, [u8; 192]>,
    /// Whether nobody is waited for any more.
    is_closed: bool,
    /// Whose signature is in the sum, and the sum.
    signed: Option<(BTreeSet<AccountId>, Option<Shared>)>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Distillery {
    /// Oldest first.
    waiting: VecDeque<(Line, Hash)>,
    /// By number; the lowest leaves first.
    trees: BTreeMap<u64, Tree>,
    last: u64,
    /// Whether the last tree was of many: the next one waits for others then, so that a sum of keys is for as many as there can be.
    is_busy: bool,
    /// Whether what waits is looked at again by itself.
    is_armed: bool,
}

impl Distillery {
    /// Entries that are in no tree.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the next batch is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.trees.first_key_value().is_some_and(|(_, tree)| tree.signed.is_some())
    }

    /// The next batch's lines and what stands for the signatures of most of them.
    fn take_ready(&mut self) -> Option<Tree> {
        let first = self.trees.first_entry().filter(|tree| tree.get().signed.is_some())?;
        Some(first.remove())
    }

    pub(super) fn bytes(&self) -> u64 {
        let entries: usize = self.trees.values().map(|tree| tree.lines.len()).sum();
        let lines = (self.waiting.len() + entries) * size_of::<(Line, Hash)>();
        (lines + entries * OWNER_BYTES) as u64
    }

    /// Bytes that trees take, of batches of so many entries.
    pub(super) const fn bytes_max(batch_max: u32) -> u64 {
        let line = size_of::<(Line, Hash)>() as u64;
        (TREES_MAX as u64 + 8) * batch_max as u64 * (2 * line + OWNER_BYTES as u64)
    }
}

impl<B: Carrier> Replica<B> {
    /// Which owners may sign together: those of the genesis, for possession is proven there; none where it is not asked for.
    pub(super) fn vouched(config: &crate::Config) -> Points {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        if config.parameters.distil == Span::ZERO {
            return Points::new();
        }
        for opening in &config.genesis {
            *counts.entry(opening.id.registrar).or_default() += 1;
        }
        let absent = |(registrar, count)| (registrar, Arc::new(vec![StoredKey::ABSENT; count]));
        counts.into_iter().map(absent).collect()
    }

    /// Has the keys of the genesis read.
    pub(super) fn read_points(&self, turn: &mut Turn<'_, Self>) {
        for (registrar, known) in &self.points {
            let mut all: Vec<Option<[u8; 48]>> = vec![None; known.len()];
            for opening in self.config.genesis.iter().filter(|opening| opening.id.registrar == *registrar) {
                let at = usize::try_from(opening.id.local.saturating_sub(1)).ok();
                if let (Some(place), Owner::Distilled { multi, .. }) =
                    (at.and_then(|at| all.get_mut(at)), opening.terms.owner)
                {
                    *place = Some(multi);
                }
            }
            for (part, keys) in (0_usize..).zip(all.chunks(KEYS_PER_JOB)) {
                if keys.iter().any(Option::is_some) {
                    let (registrar, from) = (*registrar, part * KEYS_PER_JOB);
                    compute(turn, Work::Points { registrar, from, keys: keys.to_vec() });
                }
            }
        }
    }

    /// Bytes that keys take.
    pub(super) fn points_bytes(&self) -> u64 {
        self.points.values().map(|known| (known.len() * size_of::<StoredKey>()) as u64).sum()
    }

    /// Keys were read.
    pub(super) fn on_points(&mut self, registrar: u32, from: usize, keys: &[StoredKey]) {
        if let Some(known) = self.points.get_mut(&registrar) {
            let places = Arc::make_mut(known).iter_mut().skip(from);
            places.zip(keys).for_each(|(place, key)| *place = *key);
        }
    }

    /// The keys under which the entries of an owner are good.
    pub(super) fn signer(&self, spender: AccountId, owner: Owner) -> Option<Signer> {
        match owner {
            Owner::SelfSigned(single) => Some(Signer { single, multi: None }),
            Owner::Distilled { single, multi } => {
                let known = self.points.get(&spender.registrar);
                let local = usize::try_from(spender.local).unwrap_or(usize::MAX);
                let is_vouched = known.is_some_and(|known| local >= 1 && local <= known.len());
                Some(Signer { single, multi: is_vouched.then_some(multi) })
            }
            Owner::Custodial(_) => None,
        }
    }

    /// The key that the owner of an entry signs with together with others, if it may.
    fn together_key(&self, line: &Line) -> Option<[u8; 48]> {
        let id = line.entry.id;
        matches!(line.auth, Auth::Owner(_)).then_some(())?;
        self.signer(id.spender, self.ledger.owner(id)?)?.multi
    }

    /// Puts an entry with others whose owners are asked to sign together; false where its owner signs alone.
    pub(super) fn distils(&mut self, line: &Line, digest: Hash) -> bool {
        let may = self.together_key(line).is_some();
        if may {
            self.distillery.waiting.push_back((line.clone(), digest));
        }
        may
    }

    /// Asks owners of what waits: of a full batch at once, and of less while few are asked, no other signatures are being checked, and the last
    /// tree was not of many. Else it waits for others, but not for long.
    pub(super) fn consider_tree(&mut self, turn: &mut Turn<'_, Self>) {
        let most = usize::try_from(self.config.parameters.batch_max).unwrap_or(usize::MAX);
        while !self.distillery.waiting.is_empty() && self.distillery.trees.len() < TREES_MAX {
            let open = self.distillery.trees.values().filter(|tree| !tree.is_closed).count();
            let must_wait = self.distillery.is_busy || self.desk.is_checking() || open >= FLIGHTS;
            if self.distillery.waiting.len() < most && must_wait {
                if !self.distillery.is_armed {
                    self.distillery.is_armed = true;
                    turn.arm(Timer::Plant, Span(self.config.parameters.distil.0 / GATHER));
                }
                return;
            }
            self.plant(most, turn);
        }
    }

    /// What waits for others waited long enough.
    pub(super) fn on_plant_due(&mut self, turn: &mut Turn<'_, Self>) {
        self.distillery.is_armed = false;
        let most = usize::try_from(self.config.parameters.batch_max).unwrap_or(usize::MAX);
        if !self.distillery.waiting.is_empty() && self.distillery.trees.len() < TREES_MAX {
            self.plant(most, turn);
        }
        self.consider_tree(turn);
    }

    /// Makes a tree of what waits.
    fn plant(&mut self, most: usize, turn: &mut Turn<'_, Self>) {
        let bytes_max = usize::try_from(self.config.parameters.batch_bytes).unwrap_or(usize::MAX);
        let (mut lines, mut bytes) = (Vec::new(), 0_usize);
        while let Some((line, _)) = self.distillery.waiting.front().filter(|_| lines.len() < most) {
            bytes = bytes.saturating_add(synod_wire::Wire::encode(line).len());
            if bytes > bytes_max {
                break;
            }
            lines.extend(self.distillery.waiting.pop_front());
        }
        self.distillery.is_busy = lines.len() >= BUSY;
        lines.sort_by_key(|(line, _)| line.entry.id);
        let (mut keys, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for (line, _) in &lines {
            let spender = line.entry.id.spender;
            if let Some(key) = self.together_key(line).filter(|_| !keys.contains_key(&spender))
                // A key that two accounts have would sign for the one what its owner saw of the other.
                && taken.insert(key)
            {
                keys.insert(spender, key);
            }
        }
        let asked = lines.iter().filter(|(line, _)| keys.contains_key(&line.entry.id.spender));
        let leaves = leaves(asked.map(|(line, digest)| (line, *digest)));
        self.distillery.last = self.distillery.last.saturating_add(1);
        let number = self.distillery.last;
        let tree = Tree { lines, keys, root: None, shares: BTreeMap::new(), is_closed: false, signed: None };
        self.distillery.trees.insert(number, tree);
        turn.arm(Timer::Distil(number), self.config.parameters.distil);
        compute(turn, Work::Invite { number, leaves });
    }

    /// A tree is made: its owners are asked.
    pub(super) fn on_invited(&mut self, invited: Vec<Invitation>, turn: &mut Turn<'_, Self>) {
        let Some(first) = invited.first() else { return };
        let Some(tree) = self.distillery.trees.get_mut(&first.number) else { return };
        tree.root = Some(first.root);
        turn.output(Output::Invited(invited));
    }

    /// An owner signed.
    pub(super) fn on_share(
        &mut self,
        number: u64,
        owner: AccountId,
        share: [u8; 192],
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(tree) = self.distillery.trees.get_mut(&number) else { return };
        if !tree.is_closed && tree.root.is_some() && tree.keys.contains_key(&owner) {
            tree.shares.insert(owner, share);
            if tree.shares.len() == tree.keys.len() {
                self.close(number, turn);
            }
        }
    }

    /// Whoever did not answer signs alone.
    pub(super) fn on_distil_due(&mut self, number: u64, turn: &mut Turn<'_, Self>) {
        self.close(number, turn);
    }

    fn close(&mut self, number: u64, turn: &mut Turn<'_, Self>) {
        let Some(tree) = self.distillery.trees.get_mut(&number).filter(|tree| !tree.is_closed) else {
            return;
        };
        tree.is_closed = true;
        turn.disarm(Timer::Distil(number));
        let shares = std::mem::take(&mut tree.shares);
        let with_key = |(id, share)| Some((id, (*tree.keys.get(&id)?, share)));
        let shares: BTreeMap<AccountId, ([u8; 48], [u8; 192])> =
            shares.into_iter().filter_map(with_key).collect();
        match tree.root.filter(|_| !shares.is_empty()) {
            Some(root) => {
                let (view, points) = (Arc::clone(&self.config.view), self.points.clone());
                compute(turn, Work::AddUp { number, view, root, shares, points });
            }
            None => self.on_added_up(number, Vec::new(), None, turn),
        }
        self.consider_tree(turn);
    }

    /// What owners gave is added up.
    pub(super) fn on_added_up(
        &mut self,
        number: u64,
        owners: Vec<AccountId>,
        signature: Option<Shared>,
        turn: &mut Turn<'_, Self>,
    ) {
        if let Some(tree) = self.distillery.trees.get_mut(&number) {
            tree.signed = Some((owners.into_iter().collect(), signature));
        }
        self.consider_flush(turn);
        self.consider_tree(turn);
    }

    /// The next batch whose owners were asked. Where an entry gave way to another one meanwhile, the tree is none of what is left, so that
    /// each signs alone.
    pub(super) fn take_distilled(&mut self, turn: &mut Turn<'_, Self>) -> Option<Content> {
        let Tree { lines, keys, signed, .. } = self.distillery.take_ready()?;
        // There is room for another one.
        self.consider_tree(turn);
        let (owners, signature) = signed?;
        let is_whole = lines.iter().all(|(line, digest)| self.holds(line, *digest));
        let Some(signature) = signature.filter(|_| is_whole) else {
            let lines = lines.into_iter().map(|(line, _)| line).collect();
            return Some(Content { lines, ..Content::default() });
        };
        turn.applied(Rule::Distil);
        let signed = |(line, _): (Line, Hash)| {
            let auth = match line.auth {
                _ if owners.contains(&line.entry.id.spender) => Auth::Together,
                Auth::Owner(signature) if keys.contains_key(&line.entry.id.spender) => {
                    Auth::Straggler(signature)
                }
                auth => auth,
            };
            Line { auth, ..line }
        };
        let lines = lines.into_iter().map(signed).collect();
        Some(Content { lines, together: Some(signature), ..Content::default() })
    }
}
