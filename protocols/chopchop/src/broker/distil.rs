//! Distilling: clients are shown where they stand, and sign (4.3, 4.4).

use std::sync::Arc;

use synod_machine::Span;
use synod_quorum::NodeId;

use super::job::{Candidate, Task};
use super::open::{Batch, Messages, Phase, Shares, Slot};
use super::{Broker, Step, Timer};
use crate::certificate::HeightCertificate;
use crate::message::{ClientMessage, Inclusion};
use crate::statement::BlsShareBytes;
use crate::trace::Rule;
use crate::tree::{EntryTree, root_commit};

use synod_crypto::Hash;
use synod_crypto::bls::{BlsSignature, KeySource as _};

/// Shares that one job reads.
const READ_TOGETHER: usize = 64;
/// Shortest wait for shares.
const DISTIL_MIN: Span = Span::millis(20);
/// One in so many of the missing shares came within the last wait: another wait brings more.
const COMING: u32 = 50;

/// First half of a root's commitment, by which messages name it.
pub(super) fn half(commit: &Hash) -> [u8; 16] {
    commit.0.first_chunk().copied().unwrap_or_default()
}

impl Broker {
    pub(super) fn tree_built(&mut self, number: u64, tree: Arc<EntryTree>, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get_mut(&number) else { return };
        let Some(messages) = batch.messages_mut() else { return };
        let domains = self.config.cluster.domains();
        messages.commit = root_commit(domains, messages.k, &messages.shape, &tree.root());
        messages.tree = Some(tree);
        let (commit, offered) = (messages.commit, messages.offered);
        self.by_commit.insert(half(&commit), number);
        turn.applied(Rule::Step4);
        if offered {
            batch.phase = Phase::Distilling;
        }
        self.places.queue(number);
        self.tell_more(turn);
        if !offered {
            self.seal(number, turn);
        }
    }

    /// 1.5 times the time in which 99 of 100 answered, in the slowest of the last batches. Whoever answers is not waited for
    /// any longer than it takes, so that this costs time only where clients are silent.
    pub(super) fn distil_wait(&self) -> Span {
        let most = self.config.parameters.distil_max;
        let wait = self.answers.quantile(99).map_or(most, |span| Span(span.0 / 2 * 3));
        wait.max(DISTIL_MIN).min(most)
    }

    /// Shows a client its place on this link.
    pub(super) fn show(&self, number: u64, index: u32, link: NodeId, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get(&number) else { return };
        let Some((messages, tree)) = batch.messages().and_then(|of| Some((of, of.tree.as_ref()?))) else {
            return;
        };
        let entry = |at: u32| messages.slots.get(at as usize).map(|slot| slot.admitted.as_entry());
        let Some(proof) = tree.prove(index, entry) else { return };
        let (k, shape) = (messages.k, messages.shape);
        let closed = batch.phase != Phase::Distilling;
        // Only number 0 needs no proof: a client may have signed right below the height that is proven to it.
        let shows = |shown: &&HeightCertificate| !closed && k > 0 && k < shown.statement.height;
        let height = self.shown.as_ref().filter(shows).cloned();
        let inclusion = Inclusion { root: tree.root(), k, shape, proof, height, closed };
        Self::tell(link, ClientMessage::Inclusion(inclusion), turn);
    }

    /// The first share of each of the last two links that carried the client's submission; no other counts.
    pub(super) fn on_multi_sig(
        &mut self,
        (link, id): (NodeId, u32),
        root_commit: [u8; 16],
        share: Box<BlsShareBytes>,
        turn: &mut Step<'_>,
    ) {
        let Some(number) = self.by_commit.get(&root_commit).copied() else { return };
        let place = self.standings.place(id).filter(|(batch, _)| *batch == number);
        let Some(batch) = self.batches.get_mut(&number) else { return };
        let phase = batch.phase;
        let Some(messages) = batch.messages_mut().filter(|messages| messages.offered) else { return };
        let Some(index) = place.map(|(_, index)| index).or_else(|| messages.index_of(id)) else { return };
        let Some(slot) = messages.slot_mut(index) else { return };
        if !slot.admitted.carriers.has(link) || slot.heard.has(link) || slot.shown.times == 0 {
            return;
        }
        let answered = turn.now().since(slot.shown.first);
        if phase != Phase::Distilling {
            // Too late to sign, and in time to say how long the next ones are waited for.
            slot.heard.add(link);
            if messages.answered_late() {
                self.answers.add(answered);
            }
            return;
        }
        // More links than two in turn would make room for a third share.
        if slot.heard.iter().count() >= 2 {
            return;
        }
        slot.heard.add(link);
        let answers = slot.is_complete();
        if answers {
            messages.answered(answered);
        }
        messages.silent -= u32::from(answers);
        messages.unread.push((index, link, share));
        let (full, complete) = (messages.unread.len() >= READ_TOGETHER, messages.silent == 0);
        if answers {
            self.heard_of_place(number, index, turn.now());
        }
        if complete {
            self.distil_over(number, turn);
        } else if full {
            self.read_shares(number, turn);
        }
        self.tell_more(turn);
    }

    /// The wait for shares is up: it is over unless many still come, or most did not come yet. What answers took before says
    /// little where clients had less to do then: a broker that just began, or one whose clients were another's before. So the
    /// next wait is half of what passed, too.
    pub(super) fn distil_due(&mut self, number: u64, turn: &mut Step<'_>) {
        let (wait, most) = (self.distil_wait(), self.config.parameters.distil_max);
        let batch = self.batches.get_mut(&number).filter(|batch| batch.phase == Phase::Distilling);
        let Some(messages) = batch.and_then(Batch::messages_mut) else { return };
        let came = messages.silent_before.saturating_sub(messages.silent);
        messages.silent_before = messages.silent;
        let waited = messages.slots.last().map_or(Span::ZERO, |slot| turn.now().since(slot.shown.first));
        let begins = messages.silent > messages.shape.count / 2;
        let comes = begins || came.saturating_mul(COMING) >= messages.silent;
        if messages.places.ended && waited < most && comes {
            let left = Span(most.0.saturating_sub(waited.0));
            turn.arm(Timer::Distil(number), wait.max(Span(waited.0 / 2)).min(left));
        } else {
            self.distil_over(number, turn);
        }
    }

    fn read_shares(&mut self, number: u64, turn: &mut Step<'_>) {
        let Some(messages) = self.batches.get_mut(&number).and_then(Batch::messages_mut) else { return };
        let shares = core::mem::take(&mut messages.unread);
        if !shares.is_empty() {
            messages.reading += 1;
            self.compute(turn, Task::Shares(number, shares));
        }
    }

    /// Everybody answered, or the time is up.
    pub(super) fn distil_over(&mut self, number: u64, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| batch.phase == Phase::Distilling)
        else {
            return;
        };
        if let Some(messages) = batch.messages_mut() {
            if messages.slowest > Span::ZERO && !messages.over {
                self.answers.add(messages.slowest);
            }
            messages.over = true;
        }
        self.read_shares(number, turn);
        self.search_when_read(number, turn);
    }

    pub(super) fn shares_read(
        &mut self,
        number: u64,
        shares: Vec<(u32, NodeId, Option<BlsSignature>)>,
        turn: &mut Step<'_>,
    ) {
        let batch = self.batches.get_mut(&number).filter(|batch| batch.phase == Phase::Distilling);
        let Some(messages) = batch.and_then(Batch::messages_mut) else { return };
        messages.reading = messages.reading.saturating_sub(1);
        if messages.shares.is_empty() {
            // A batch after the other: memory that is new to the process costs more than what is done in it.
            messages.shares = core::mem::take(&mut self.spare);
            messages.shares.resize_with(messages.slots.len(), Shares::default);
        }
        for (index, link, share) in shares {
            let at = index as usize;
            // What is off the curve is no share, and nobody's fault but its sender's.
            if let (Some(slot), Some(of), Some(share)) =
                (messages.slots.get_mut(at), messages.shares.get_mut(at), share)
            {
                match &of.first {
                    None => (of.first, slot.sent[0]) = (Some(share), Some(link)),
                    Some(_) => (of.other, slot.sent[1]) = (Some(Box::new(share)), Some(link)),
                }
            }
        }
        self.search_when_read(number, turn);
    }

    fn search_when_read(&mut self, number: u64, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get_mut(&number) else { return };
        let Some(messages) = batch.messages() else { return };
        if batch.phase != Phase::Distilling
            || !messages.over
            || messages.reading > 0
            || !messages.unread.is_empty()
        {
            return;
        }
        let candidates = Self::candidates(messages, &self.book, &self.suspects);
        let commit = messages.commit;
        batch.phase = Phase::Searching;
        if let Some(messages) = batch.messages_mut() {
            let mut spare = core::mem::take(&mut messages.shares);
            spare.clear();
            if spare.capacity() > self.spare.capacity() {
                self.spare = spare;
            }
        }
        self.end_places(number);
        turn.disarm(Timer::Distil(number));
        turn.disarm(Timer::Resend(number));
        turn.applied(Rule::TreeSearch);
        let budget = self.config.parameters.search_max;
        self.compute(turn, Task::Search(number, commit, candidates, budget));
    }

    /// Those that sent a share, suspects last: together they cost the fewest checks.
    fn candidates(
        messages: &Messages,
        book: &crate::keybook::KeyBook,
        suspects: &std::collections::BTreeSet<u32>,
    ) -> Vec<Candidate> {
        let candidate = |((index, slot), shares): ((u32, &Slot), &Shares)| {
            let (first, other) = (shares.first?, shares.other.as_deref().copied());
            let key = *book.stored(slot.admitted.id)?;
            Some((suspects.contains(&slot.admitted.id), Candidate { index, key, first, other }))
        };
        let (mut all, mut last) = (Vec::with_capacity(messages.slots.len()), Vec::new());
        let slots = (0_u32..).zip(&messages.slots).zip(&messages.shares);
        for (is_suspect, candidate) in slots.filter_map(candidate) {
            let list = if is_suspect { &mut last } else { &mut all };
            list.push(candidate);
        }
        all.append(&mut last);
        all
    }
}
