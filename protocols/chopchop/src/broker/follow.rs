//! Following the servers' directory (3.3): members come from one server, and count once f + 1 report the same root.
//!
//! A server is asked for more as long as it gives as many members as fit at once; whoever gives fewer, and whoever takes longer
//! than its turn, is followed by the next one. Turns grow while nothing is vouched for, so that one server that is slow costs a
//! part of the time alone, and one that is correct comes to the end in its turn.
//!
//! *Bounds.* Members that nobody vouches for yet reach at most to the length that some correct server reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_crypto::bls::StoredKey;
use synod_machine::{Span, Time};
use synod_quorum::{NodeId, NodeSet};

use super::job::Task;
use super::{Broker, Step};
use crate::card::Card;
use crate::directory::{CHUNK_MEMBERS, Directory, Member, MemberChunk, NO_ID};
use crate::fault::Fault;
use crate::message::{CARDS_MAX, Cards, ServerMessage};

/// How long one server has to answer a pull.
const PULL: Span = Span::millis(900);
/// How long one server is asked for more, the first time around.
const TURN: Span = Span::secs(4);
/// Times around after which turns do not grow any more.
const TURNS_GROW: u32 = 10;

/// What is being followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Follow {
    reports: BTreeMap<NodeId, (u32, Hash)>,
    pulled: Option<Time>,
    /// The server that is asked for members; those of others do not count.
    source: Option<NodeId>,
    /// Since when it is.
    since: Time,
    /// Which server gives members; the next one after a false one.
    turn_of: u32,
    /// Servers that were asked since the last length that f + 1 vouched for.
    tries: u32,
    hashing: bool,
    /// Who gave members that nobody vouches for yet.
    gave: NodeSet,
}

impl Follow {
    /// Whether whoever is asked, of so many, still has time: to answer, and in its turn.
    fn goes_on(&self, now: Time, members: u32) -> bool {
        let turns = (self.tries / members).min(TURNS_GROW);
        let answers = self.pulled.is_some_and(|since| now.since(since) < PULL);
        answers && now.since(self.since) < TURN.times(1 << turns)
    }
}

/// The ids that these cards have; a later directory gives the same ones, for keys never leave.
pub(super) fn ids_of(directory: &Directory, cards: &[(Card, NodeId)]) -> Vec<u32> {
    cards.iter().map(|(card, _)| directory.id_of(&Member::from(card)).unwrap_or(NO_ID)).collect()
}

/// The first `length` members of a directory.
fn cut(directory: &Directory, length: u32) -> Option<Directory> {
    let (whole, rest) = (length as usize / CHUNK_MEMBERS, length as usize % CHUNK_MEMBERS);
    let view = directory.view();
    let mut chunks: Vec<Arc<MemberChunk>> = view.chunks().iter().take(whole).cloned().collect();
    if rest > 0 {
        let bytes: Vec<u8> = view.chunks().get(whole)?.encode();
        chunks.push(Arc::new(MemberChunk::decode(bytes.get(..rest * 80)?)?));
    }
    Directory::restore(chunks)
}

impl Broker {
    /// Reads the keys of members that f + 1 servers vouch for.
    pub(super) fn read_keys(&mut self, turn: &mut Step<'_>) {
        if self.reading_keys.is_none() && self.book.len() < self.trusted {
            self.reading_keys = Some(self.trusted);
            self.compute(turn, Task::ReadKeys(self.directory.view(), self.book.len()));
        }
    }

    pub(super) fn keys_read(&mut self, from: u32, keys: Vec<Option<StoredKey>>, turn: &mut Step<'_>) {
        // The directory that they were read from may have gone on with members that were dropped since.
        let vouched = self.reading_keys.take().unwrap_or(0);
        if from == self.book.len() {
            let most = vouched.saturating_sub(from) as usize;
            self.book.append(keys.get(..most).unwrap_or(&keys));
        }
        self.read_keys(turn);
    }

    /// Pulls what at least one correct server has and this broker has not.
    pub(super) fn follow_directory(&mut self, turn: &mut Step<'_>) {
        let target = self.directory_target();
        let members = self.config.cluster.roster().size();
        let (follow, now) = (&mut self.follow, turn.now());
        if target <= self.trusted || follow.goes_on(now, members) {
            return;
        }
        (follow.pulled, follow.since) = (Some(now), now);
        follow.turn_of = follow.turn_of.wrapping_add(1);
        follow.tries = follow.tries.saturating_add(1);
        let source = NodeId(self.follow.turn_of % members);
        self.follow.source = Some(source);
        let from = self.directory.len();
        Self::ask_servers(source, ServerMessage::DirPull { from }, turn);
        // The others need to say their root alone.
        let others: NodeSet = self.servers().without(source);
        Self::ask_servers(others, ServerMessage::DirPull { from: target }, turn);
    }

    fn directory_target(&self) -> u32 {
        u32::try_from(self.reached(|hint| u64::from(hint.directory))).unwrap_or(u32::MAX)
    }

    pub(super) fn on_cards(&mut self, from: NodeId, cards: Cards, turn: &mut Step<'_>) {
        let hint = self.hints.entry(from).or_default();
        hint.directory = hint.directory.max(cards.length);
        self.follow.reports.insert(from, (cards.length, cards.root));
        let target = self.directory_target();
        let is_asked = self.follow.source == Some(from);
        if is_asked && cards.from == self.directory.len() && !self.follow.hashing {
            let mut falsified = false;
            // A correct server that has all of them gives as many as fit.
            let missing = target.saturating_sub(self.directory.len()) as usize;
            for member in &cards.members {
                if self.directory.len() >= target.min(cards.length) {
                    break;
                }
                self.follow.gave = self.follow.gave.or(NodeSet::only(from));
                falsified |= !self.directory.admit(member).1;
            }
            if falsified {
                // The false one may be what another server gave before.
                if self.follow.gave == NodeSet::only(from) {
                    turn.blame(from, Fault::FalseCards);
                }
                self.distrust();
            } else if cards.members.len() >= CARDS_MAX.min(missing) && self.directory.len() < target {
                let from_id = self.directory.len();
                self.follow.pulled = Some(turn.now());
                Self::ask_servers(from, ServerMessage::DirPull { from: from_id }, turn);
            }
        }
        let length = self.directory.len();
        if length > self.trusted && !self.follow.hashing && self.vouched(length).is_some() {
            self.follow.hashing = true;
            self.compute(turn, Task::Root(self.directory.view()));
        }
    }

    /// The root that f + 1 servers report for this length.
    fn vouched(&self, length: u32) -> Option<Hash> {
        let quorums = self.config.cluster.quorums();
        self.follow.reports.values().filter(|(of, _)| *of == length).map(|(_, root)| *root).find(|root| {
            let equal = self.follow.reports.iter().filter(|(_, report)| **report == (length, *root));
            quorums.has_correct(equal.map(|(id, _)| *id).collect())
        })
    }

    pub(super) fn root_computed(&mut self, length: u32, root: Hash, turn: &mut Step<'_>) {
        self.follow.hashing = false;
        if length != self.directory.len() {
            return;
        }
        match self.vouched(length) {
            Some(vouched) if vouched == root => {
                self.trusted = length;
                (self.follow.pulled, self.follow.source, self.follow.tries) = (None, None, 0);
                self.follow.gave = NodeSet::EMPTY;
                self.read_keys(turn);
                self.cards_delivered(turn);
            }
            Some(_) => self.distrust(),
            // They have moved on; their next reports say more.
            None => {}
        }
    }

    /// Drops the members that nobody vouches for.
    fn distrust(&mut self) {
        (self.follow.pulled, self.follow.source, self.follow.gave) = (None, None, NodeSet::EMPTY);
        match cut(&self.directory, self.trusted) {
            Some(directory) => self.directory = directory,
            None => unreachable!("a prefix of a directory is one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Follow, PULL, TURN};
    use synod_machine::{Span, Time};

    #[test]
    fn a_server_that_answers_late_each_time_has_its_turn_and_no_more() {
        let step = Span(PULL.0 - 1);
        let lasts = |tries| {
            let mut follow = Follow { pulled: Some(Time::ZERO), tries, ..Follow::default() };
            let mut now = Time::ZERO;
            while follow.goes_on(now + step, 4) && now < Time(Span::secs(60).0) {
                now = now + step;
                follow.pulled = Some(now);
            }
            now.since(Time::ZERO)
        };
        let [first, second, third] = [1, 4, 8].map(lasts);
        assert!(first < TURN && first > Span::secs(2), "{first:?}");
        assert!(second > TURN && second < TURN.times(2), "longer where nobody came to the end before");
        assert!(third > TURN.times(3) && third < TURN.times(4));
        let silent = Follow { pulled: Some(Time::ZERO), ..Follow::default() };
        assert!(silent.goes_on(Time(step.0), 4) && !silent.goes_on(Time(PULL.0), 4));
    }
}
