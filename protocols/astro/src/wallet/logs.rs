//! How far the log is, by what replicas say, none of whom is believed alone.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_ledger::Digests;
use synod_machine::{Turn, planted};
use synod_quorum::{NodeId, NodeSet};

use super::{Job, Log, Output, Record, Signed, Stage, Stop, Timer, Wallet, Word};
use crate::batch::Line;
use crate::trace::Rule;
use crate::words::Level;

/// A place of the log and the digest of what stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) n: u64,
    pub(super) head: Hash,
}

impl Wallet {
    /// Asks all replicas how far the log is, as long as that matters.
    pub(super) fn read(&mut self, turn: &mut Turn<'_, Self>) {
        if self.stage == Stage::Reading || !self.open.is_empty() {
            turn.send(self.all(), Word::Read(self.config.account));
            turn.arm(Timer::Read, self.config.resend);
        }
    }

    /// A replica shows the log.
    pub(super) fn on_log(&mut self, from: NodeId, log: Log, turn: &mut Turn<'_, Self>) {
        if log.account != self.config.account || matches!(self.stage, Stage::Stopped(_)) {
            return;
        }
        let is_strange = |line: &Line| {
            let id = line.entry.id;
            id.spender == self.config.account
                && id.n > log.sequence.max(self.base.n)
                && self.digest_at(id.n) != Some(Digests::default().entry(&line.entry))
        };
        if !log.open.iter().any(is_strange) {
            return self.on_shown(from, Log { open: Default::default(), ..log }, turn);
        }
        if self.checking.insert(from) {
            let (view, key) = (self.config.view.clone(), self.config.key);
            turn.compute(Job::Show { view, key, from, log });
        }
    }

    /// A replica shows the log, in which the owner signed the open entries.
    pub(super) fn on_shown(&mut self, from: NodeId, log: Log, turn: &mut Turn<'_, Self>) {
        self.checking.remove(from);
        if matches!(self.stage, Stage::Stopped(_)) {
            return;
        }
        self.stated.insert(from, Place { n: log.sequence, head: log.head });
        if self.has_file {
            if let Some(n) = self.foreign(&log) {
                return self.stop(Stop::Foreign(n), turn);
            }
            self.raise(turn);
        } else {
            self.shown.insert(from, log);
            self.take_over(turn);
        }
        let has_read = self.quorums.intersects(self.stated.keys().copied().collect());
        if self.stage == Stage::Reading && self.has_file && has_read {
            self.stage = Stage::Ready;
            turn.output(Output::Ready(self.last().n));
        }
        self.next_order(turn);
    }

    /// The place of an entry that this wallet did not sign: the owner's signature shows it, or so many replicas that one is correct.
    fn foreign(&self, log: &Log) -> Option<u64> {
        let own =
            |line: &&Line| self.digest_at(line.entry.id.n) == Some(Digests::default().entry(&line.entry));
        let is_above = |line: &&Line| line.entry.id.n > self.base.n;
        if let Some(line) = log.open.iter().filter(is_above).find(|line| !own(line)) {
            return Some(line.entry.id.n);
        }
        let elsewhere = |place: &Place| place.n >= self.base.n && self.digest_at(place.n) != Some(place.head);
        let others: NodeSet =
            self.stated.iter().filter(|(_, place)| elsewhere(place)).map(|(from, _)| *from).collect();
        self.quorums.has_correct(others).then(|| self.base.n.saturating_add(1))
    }

    /// Who states that the log ends at this place or behind it, by an entry of this wallet.
    fn covering(&self, n: u64) -> NodeSet {
        let covers = |place: &Place| place.n >= n && self.digest_at(place.n) == Some(place.head);
        self.stated.iter().filter(|(_, place)| covers(place)).map(|(from, _)| *from).collect()
    }

    /// Tells how sure open entries are, and lets go of those that are as sure as can be.
    fn raise(&mut self, turn: &mut Turn<'_, Self>) {
        let levels: Vec<(u64, Level)> = self
            .open
            .keys()
            .map(|n| {
                let by = self.covering(*n);
                let level = match (self.quorums.intersects(by), self.quorums.has_correct(by)) {
                    (true, _) => Level::Stable,
                    (false, true) => Level::Settled,
                    (false, false) => Level::Accepted,
                };
                (*n, level)
            })
            .collect();
        for (n, level) in levels {
            let Some(signed) = self.open.get_mut(&n).filter(|signed| signed.level < level) else { continue };
            signed.level = level;
            let (id, transfer) = (signed.line.entry.id, signed.line.entry.transfer);
            if let Some((ticket, _)) = signed.caller.take_if(|(_, until)| *until <= level) {
                turn.disarm(Timer::Deadline(ticket));
            }
            turn.output(Output::Progress { id, transfer, level });
        }
        let stable = self.open.iter().take_while(|(_, signed)| signed.level == Level::Stable).last();
        if let Some(base) = stable.map(|(n, signed)| Place { n: *n, head: signed.digest }) {
            self.rest_on(base, turn);
        }
    }

    /// Everything up to this place is done with.
    fn rest_on(&mut self, base: Place, turn: &mut Turn<'_, Self>) {
        assert!(base.n >= self.base.n || planted!(A32), "the log goes on");
        for (_, signed) in self.open.range(..=base.n) {
            if let synod_ledger::Kind::Move(to) = signed.line.entry.kind {
                (self.representative, self.turn) = (to, 0);
            }
        }
        self.base = base;
        self.open.retain(|n, _| *n > base.n);
        turn.persist(self.based());
        turn.compact();
        if self.open.is_empty() {
            turn.disarm(Timer::Resend);
            turn.disarm(Timer::Read);
        }
    }

    /// Without its file: takes the account over from a quorum that states one end of its log, with the open entries that it shows.
    fn take_over(&mut self, turn: &mut Turn<'_, Self>) {
        let mut by_end: BTreeMap<Place, NodeSet> = BTreeMap::new();
        for (from, place) in &self.stated {
            by_end.entry(*place).or_default().insert(*from);
        }
        let Some((end, by)) = by_end.into_iter().find(|(_, by)| self.quorums.intersects(*by)) else { return };
        let shown = self.shown.iter().filter(|(from, _)| by.contains(**from));
        let lines = shown.flat_map(|(_, log)| log.open.iter());
        let mut places: BTreeMap<u64, BTreeMap<[u8; 32], &Line>> = BTreeMap::new();
        for line in lines.filter(|line| line.entry.id.spender == self.config.account) {
            let digest = Digests::default().entry(&line.entry);
            places.entry(line.entry.id.n).or_default().insert(digest.0, line);
        }
        let (mut last, mut adopted) = (end, Vec::new());
        for (n, at) in places.range(end.n.saturating_add(1)..) {
            let mut candidates = at.iter();
            let (Some((digest, line)), None) = (candidates.next(), candidates.next()) else {
                return self.stop(Stop::Conflicted(*n), turn);
            };
            if last.n.checked_add(1) != Some(*n) || line.entry.prev != last.head {
                if !self.has_doubted {
                    return self.doubt(turn);
                }
                break;
            }
            last = Place { n: *n, head: Hash(*digest) };
            adopted.push(((*line).clone(), last.head));
        }
        turn.applied(Rule::TakeOver);
        (self.base, self.has_file) = (end, true);
        turn.persist(self.based());
        self.shown.clear();
        for (line, digest) in adopted {
            turn.persist(Record::Signed(line.clone()));
            let n = line.entry.id.n;
            self.open.insert(n, Signed::new(line, digest, None));
            self.submit(n, turn);
        }
    }

    /// Asks all replicas again, once, where the logs of a quorum show an entry and not what stands before it.
    ///
    /// If the entry is certified, a quorum accepted it and all before it, and so did a correct replica of any quorum that answers later.
    /// What is still behind a gap then is on its way at most, which is the risk that was accepted, or one liar shows it.
    fn doubt(&mut self, turn: &mut Turn<'_, Self>) {
        self.has_doubted = true;
        self.stated.clear();
        self.shown.clear();
        self.read(turn);
    }

    /// What its file says of what is done with.
    pub(super) const fn based(&self) -> Record {
        Record::Based { n: self.base.n, head: self.base.head, representative: self.representative }
    }
}
