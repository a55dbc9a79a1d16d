//! Entries that settled, or were credited from another shard, on their way to a user who keeps them: told in their order, and again after a restart, until they are kept.

use std::collections::VecDeque;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{AccountId, Digests, Entry, EntryId};
use synod_machine::{Machine, Turn};

use super::desk::AHEAD;
use super::{Carrier, Replica, keep};
use crate::words::{LOOKED_MAX, Output, Promise, Seen};

/// Unkept entries above which this representative takes no orders.
pub(super) const UNKEPT_MAX: usize = 1 << 16;

/// Settled entries that the user has not kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    kept: u64,
    /// Each with its digest, and whether it paid.
    entries: VecDeque<(Arc<Entry>, Hash, bool)>,
}

impl Feed {
    /// Takes an entry in; gives its position.
    pub(super) fn push(&mut self, entry: Arc<Entry>, digest: Hash, is_paid: bool) -> u64 {
        self.entries.push_back((entry, digest, is_paid));
        self.last()
    }

    /// How many of them the user keeps.
    pub(super) const fn kept(&self) -> u64 {
        self.kept
    }

    /// How many entries have settled.
    pub(super) fn last(&self) -> u64 {
        self.kept.saturating_add(self.entries.len() as u64)
    }

    /// Lets go of entries that are kept; gives their places.
    fn let_go(&mut self, position: u64) -> Vec<EntryId> {
        let gone = position.min(self.last()).saturating_sub(self.kept);
        self.kept = self.kept.saturating_add(gone);
        let gone = self.entries.drain(..usize::try_from(gone).unwrap_or(usize::MAX));
        gone.map(|(entry, ..)| entry.id).collect()
    }

    /// Entries that the user does not keep yet.
    pub(super) fn unkept(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|(entry, ..)| &**entry)
    }

    /// Whether the user is too far behind for more orders.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= UNKEPT_MAX
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.entries.len() * (size_of::<(Arc<Entry>, Hash, bool)>() + size_of::<Entry>())) as u64
    }

    /// As records of a snapshot, with outcomes where entries can be rejected.
    pub(super) fn records(&self, has_outcomes: bool, put: &mut dyn FnMut(Promise)) {
        put(Promise::Kept(self.kept));
        self.entries.iter().for_each(|(entry, digest, is_paid)| {
            let entry = Arc::clone(entry);
            put(if has_outcomes {
                Promise::UnkeptAs { entry, digest: *digest, is_paid: *is_paid }
            } else {
                Promise::Unkept(entry)
            });
        });
    }

    /// What a record says: a snapshot's says where it begins.
    pub(super) fn replay_kept(&mut self, position: u64) {
        if self.entries.is_empty() {
            self.kept = self.kept.max(position);
        } else {
            drop(self.let_go(position));
        }
    }

    /// See [`Promise::Unkept`].
    pub(super) fn replay_unkept(&mut self, entry: Arc<Entry>) {
        let digest = Digests::default().entry(&entry);
        self.entries.push_back((entry, digest, true));
    }
}

/// Entries that settled one after the other and that the user was not told of.
#[derive(Clone, Debug)]
pub(super) struct Untold {
    /// The shard in whose logs entries settle; others are credited.
    shard: u16,
    /// The position of the first one.
    first: u64,
    entries: Vec<(Arc<Entry>, Hash)>,
}

impl Untold {
    /// None, at a member of this shard.
    pub(super) const fn of(shard: u16) -> Self {
        Self { shard, first: 0, entries: Vec::new() }
    }

    /// Has an entry told with those before it that are of the same shard or not, as it is; one that was rejected is told behind them,
    /// alone.
    pub(super) fn push<M: Machine<Output = Output>>(
        &mut self,
        position: u64,
        (entry, digest, is_paid): (Arc<Entry>, Hash, bool),
        turn: &mut Turn<'_, M>,
    ) {
        if !is_paid {
            self.tell(turn);
            return turn.output(Output::Rejected { position, entry, digest });
        }
        let is_ours = |entry: &Entry| entry.id.spender.shard == self.shard;
        if self.entries.last().is_some_and(|(last, _)| is_ours(last) != is_ours(&entry)) {
            self.tell(turn);
        }
        if self.entries.is_empty() {
            self.first = position;
        }
        self.entries.push((entry, digest));
    }

    /// Tells the user.
    pub(super) fn tell<M: Machine<Output = Output>>(&mut self, turn: &mut Turn<'_, M>) {
        let Some((last, _)) = self.entries.last() else { return };
        let is_ours = last.id.spender.shard == self.shard;
        let (first, entries) = (self.first, std::mem::take(&mut self.entries));
        turn.output(if is_ours {
            Output::Settled { first, entries }
        } else {
            Output::Imported { first, entries }
        });
    }
}

impl<B: Carrier> Replica<B> {
    /// The position up to which the user keeps what has settled.
    #[must_use]
    pub const fn kept(&self) -> u64 {
        self.feed.kept()
    }

    /// The position of the last entry that has settled here.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.feed.last()
    }

    /// The user keeps what it was told.
    pub(super) fn on_kept(&mut self, position: u64, turn: &mut Turn<'_, Self>) {
        let gone = self.feed.let_go(position);
        for (at, id) in gone.iter().enumerate() {
            gone.get(at.saturating_add(AHEAD)).into_iter().for_each(|id| self.desk.near(id.spender));
            self.desk.free(*id);
        }
        if !gone.is_empty() {
            keep(turn, Promise::Kept(self.feed.kept));
            self.let_go_shown(self.feed.kept);
        }
    }

    /// After a restart: what the user may not have kept is told again.
    pub(super) fn tell_unkept(&self, turn: &mut Turn<'_, Self>) {
        let mut untold = Untold::of(self.book().shard());
        for (position, unkept) in (self.feed.kept.saturating_add(1)..).zip(&self.feed.entries) {
            untold.push(position, unkept.clone(), turn);
        }
        untold.tell(turn);
    }

    /// Nothing to tell yet, with room for so many.
    pub(super) fn untold(&self, count: usize) -> Untold {
        Untold { entries: Vec::with_capacity(count), ..Untold::of(self.book().shard()) }
    }

    /// How accounts stand here.
    pub(super) fn on_look(&self, ticket: u64, from: AccountId, count: u32, turn: &mut Turn<'_, Self>) {
        let count = usize::try_from(count.min(LOOKED_MAX)).unwrap_or(usize::MAX);
        let book = self.book();
        let accounts = book.accounts_from(from).take(count).filter_map(|(id, account)| {
            Some(Seen {
                standing: book.standing(id)?,
                pending: account.debits_pending(),
                available: book.available(id)?,
                incoming: self.ledger.uncollected(id),
                open: self.ledger.open_of(id),
                torn: self.ledger.torn(id).cloned(),
            })
        });
        turn.output(Output::Looked { ticket, accounts: accounts.collect() });
    }
}
