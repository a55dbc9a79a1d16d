//! Following the servers' directory (3.3): members come from one server, and count once f + 1 report the same root.
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
use crate::message::{Cards, ServerMessage};

/// How long one server has to answer a pull.
const PULL: Span = Span::millis(900);

/// What is being followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Follow {
    reports: BTreeMap<NodeId, (u32, Hash)>,
    pulled: Option<Time>,
    /// The server that is asked for members; those of others do not count.
    source: Option<NodeId>,
    /// Which server gives members; the next one after a false one.
    turn_of: u32,
    hashing: bool,
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
        if !self.reading_keys && self.book.len() < self.trusted {
            self.reading_keys = true;
            self.compute(turn, Task::ReadKeys(self.directory.view(), self.book.len()));
        }
    }

    pub(super) fn keys_read(&mut self, from: u32, keys: Vec<Option<StoredKey>>, turn: &mut Step<'_>) {
        self.reading_keys = false;
        if from == self.book.len() {
            let most = self.trusted.saturating_sub(from) as usize;
            self.book.append(keys.get(..most).unwrap_or(&keys));
        }
        self.read_keys(turn);
    }

    /// Pulls what at least one correct server has and this broker has not.
    pub(super) fn follow_directory(&mut self, turn: &mut Step<'_>) {
        let target = self.directory_target();
        let waits = self.follow.pulled.is_some_and(|since| turn.now().since(since) < PULL);
        if target <= self.trusted || waits {
            return;
        }
        self.follow.pulled = Some(turn.now());
        self.follow.turn_of += 1;
        let members = self.config.cluster.roster().size();
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
            for member in &cards.members {
                if self.directory.len() >= target.min(cards.length) {
                    break;
                }
                falsified |= !self.directory.admit(member).1;
            }
            if falsified {
                turn.blame(from, Fault::FalseCards);
                self.distrust();
            } else if !cards.members.is_empty() && self.directory.len() < target {
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
                (self.follow.pulled, self.follow.source) = (None, None);
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
        (self.follow.pulled, self.follow.source) = (None, None);
        match cut(&self.directory, self.trusted) {
            Some(directory) => self.directory = directory,
            None => unreachable!("a prefix of a directory is one"),
        }
    }
}
