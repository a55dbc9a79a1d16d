//! Answers to questions of peers behind, while their bodies are read back from blobs.
//!
//! *Bounds.* Answers of one asker are begun while those under way hold less than [`ANSWER_BYTES_MAX`] and wait for fewer
//! than 256 blobs, at most [`ANSWERS_MAX`] of them, each of at most 256 blocks and 4 MiB: never more than two full ones. A
//! member behind asks for many bodies at a time, mostly of one proposer: a small count alone would drop most of its
//! questions, and each of them would wait for its patience. Beyond that a member is served [`SERVED_PER_SECOND`] and what
//! it saved up of one second, so that one that asks without end takes little from those that order.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, List};

use crate::Header;
use crate::message::{Blocks, Piece, RANGE_MAX};
use crate::proof::CommitProof;

/// Answers under way for one asker.
pub(crate) const ANSWERS_MAX: usize = 64;
/// Bytes of headers and bodies in one answer; a single block is answered whatever its size.
pub(crate) const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Bytes of answers to one member per second. A member behind asks several members, so it catches up at a multiple.
pub(crate) const SERVED_PER_SECOND: u64 = 16 << 20;
/// What a question costs whatever is answered: that many bytes' worth of work.
pub(crate) const QUESTION_BYTES: u64 = 4 << 10;

/// An answer that waits for blobs.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Who asked.
    pub(crate) asker: NodeId,
    /// The headers, oldest first.
    pub(crate) headers: Vec<Header>,
    /// Proof of the last header of a range.
    pub(crate) proof: Option<CommitProof>,
    /// Bodies at hand, by root.
    pub(crate) bodies: Vec<(Hash, Bytes)>,
    /// Bodies to be read: blob name to root.
    pub(crate) missing: BTreeMap<Hash, Hash>,
    /// Bytes taken so far, those to be read included.
    taken: u64,
}

impl Answer {
    /// An answer without anything yet.
    pub(crate) const fn to(asker: NodeId) -> Self {
        Self {
            asker,
            headers: Vec::new(),
            proof: None,
            bodies: Vec::new(),
            missing: BTreeMap::new(),
            taken: 0,
        }
    }

    /// Takes so many more bytes if they still belong into this answer; the asker asks again for the rest.
    pub(crate) const fn takes(&mut self, bytes: u64) -> bool {
        let fits = self.taken == 0 || self.taken + bytes <= ANSWER_BYTES_MAX;
        if fits {
            self.taken += bytes;
        }
        fits
    }

    /// The message, once nothing is missing.
    pub(crate) fn blocks(self) -> Blocks {
        let pieces = self
            .bodies
            .into_iter()
            .filter_map(|(root, bytes)| Blob::try_from(bytes).ok().map(|bytes| Piece { root, bytes }));
        let pieces: Vec<Piece> = pieces.take(RANGE_MAX).collect();
        Blocks {
            headers: List::try_from(self.headers).unwrap_or_default(),
            bodies: List::try_from(pieces).unwrap_or_default(),
            proof: self.proof,
            anchor: None,
        }
    }

    /// Bytes taken so far, those to be read included.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    fn memory(&self) -> u64 {
        let bodies: u64 = self.bodies.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let headers: u64 = self.headers.iter().map(Header::memory).sum();
        bodies + headers + 64 * self.missing.len() as u64
    }
}

/// The answers under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serving {
    answers: Vec<Answer>,
    /// When what each member was served is paid off, at [`SERVED_PER_SECOND`]; one entry per member.
    paid: BTreeMap<NodeId, Time>,
}

impl Serving {
    /// Whether a question of `asker` is looked at; it pays for itself. One that is not is asked again later, or of
    /// somebody else.
    pub(crate) fn admits(&mut self, asker: NodeId, now: Time) -> bool {
        let paid = self.paid.get(&asker).copied().unwrap_or(Time::ZERO);
        let admits = paid.since(now) < Span::secs(1);
        if admits {
            self.charge(asker, QUESTION_BYTES, now);
        }
        admits
    }

    /// Charges `asker` for an answer.
    pub(crate) fn charge(&mut self, asker: NodeId, bytes: u64, now: Time) {
        let paid = self.paid.entry(asker).or_insert(Time::ZERO);
        let nanos = bytes.min(2 * ANSWER_BYTES_MAX) * Span::secs(1).0 / SERVED_PER_SECOND;
        *paid = (*paid).max(now) + Span(nanos);
    }

    /// Whether one more answer may be prepared for `asker`.
    pub(crate) fn has_room(&self, asker: NodeId) -> bool {
        let own = || self.answers.iter().filter(|answer| answer.asker == asker);
        let bytes: u64 = own().map(|answer| answer.taken).sum();
        let blobs: usize = own().map(|answer| answer.missing.len()).sum();
        own().count() < ANSWERS_MAX && bytes < ANSWER_BYTES_MAX && blobs < RANGE_MAX
    }

    /// Parks an answer; gives the blobs to read.
    pub(crate) fn park(&mut self, answer: Answer) -> BTreeSet<Hash> {
        let names = answer.missing.keys().copied().collect();
        self.answers.push(answer);
        names
    }

    /// A blob was read or is missing; gives the answers that are complete now.
    pub(crate) fn loaded(&mut self, name: &Hash, bytes: Option<&Bytes>) -> Vec<Answer> {
        for answer in &mut self.answers {
            if let Some(root) = answer.missing.remove(name)
                && let Some(bytes) = bytes
            {
                answer.bodies.push((root, bytes.clone()));
            }
        }
        let (ready, waiting) =
            core::mem::take(&mut self.answers).into_iter().partition(|answer| answer.missing.is_empty());
        self.answers = waiting;
        ready
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.answers.iter().map(Answer::memory).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_BYTES_MAX, ANSWERS_MAX, Answer, QUESTION_BYTES, SERVED_PER_SECOND, Serving};
    use synod_crypto::Hash;
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;

    fn parked(serving: &mut Serving, asker: NodeId, bytes: u64) {
        let mut answer = Answer::to(asker);
        assert!(answer.takes(bytes));
        answer.missing.insert(Hash([7; 32]), Hash([8; 32]));
        let _ = serving.park(answer);
    }

    #[test]
    fn a_member_that_asks_without_end_is_served_its_rate_and_others_theirs() {
        let (mut serving, asker) = (Serving::default(), NodeId(1));
        let mut served = 0;
        for ms in 0..3_000 {
            let now = Time::ZERO + Span::millis(ms);
            for _ in 0..100 {
                if serving.admits(asker, now) {
                    serving.charge(asker, ANSWER_BYTES_MAX, now);
                    served += ANSWER_BYTES_MAX + QUESTION_BYTES;
                }
            }
        }
        let most = 4 * SERVED_PER_SECOND + ANSWER_BYTES_MAX + QUESTION_BYTES;
        assert!(served > 3 * SERVED_PER_SECOND && served <= most, "{served} bytes in three seconds");
        assert!(serving.admits(NodeId(2), Time::ZERO + Span::secs(3)));
        assert!(serving.admits(asker, Time::ZERO + Span::secs(5)), "it is served again later");
    }

    #[test]
    fn questions_without_answers_are_counted_too() {
        let mut serving = Serving::default();
        let admitted = (0..100_000).filter(|_| serving.admits(NodeId(1), Time::ZERO)).count() as u64;
        assert!(admitted.abs_diff(SERVED_PER_SECOND / QUESTION_BYTES) <= 1, "{admitted} questions at once");
    }

    #[test]
    fn a_member_behind_may_ask_for_many_small_bodies_at_a_time() {
        let (mut serving, asker) = (Serving::default(), NodeId(1));
        for _ in 0..ANSWERS_MAX {
            assert!(serving.has_room(asker));
            parked(&mut serving, asker, 1_000);
        }
        assert!(!serving.has_room(asker), "answers are counted");
        assert!(serving.has_room(NodeId(2)), "by asker");
    }

    #[test]
    fn a_liar_has_no_more_blobs_read_for_it_than_two_ranges_take() {
        let (mut serving, asker) = (Serving::default(), NodeId(1));
        let mut answer = Answer::to(asker);
        for number in 0..super::RANGE_MAX {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&number.to_le_bytes());
            answer.missing.insert(Hash(name), Hash([8; 32]));
        }
        let _ = serving.park(answer);
        assert!(!serving.has_room(asker), "the blobs of one range are under way");
        assert!(serving.has_room(NodeId(2)));
    }

    #[test]
    fn large_answers_under_way_hold_new_ones_back() {
        let (mut serving, asker) = (Serving::default(), NodeId(1));
        parked(&mut serving, asker, ANSWER_BYTES_MAX - 1);
        assert!(serving.has_room(asker));
        parked(&mut serving, asker, ANSWER_BYTES_MAX);
        assert!(!serving.has_room(asker), "less than two full answers");
        assert_eq!(serving.loaded(&Hash([7; 32]), None).len(), 2);
        assert!(serving.has_room(asker), "and no longer than they take");
    }
}
