//! Signing roots under which a message stands.

use std::sync::Arc;

use synod_chopchop::columns::Entry;
use synod_chopchop::message::{ClientMessage, Inclusion};
use synod_chopchop::statement::BlsShareBytes;
use synod_chopchop::tree::root_commit;

use super::config::Conduct;
use super::job::Task;
use super::machine::{LoadClient, Step};
use super::member::{Half, Shown, Stage};
use super::root::{Shares, TOGETHER};

/// The highest number that leaves a free one above it.
const K_MAX: u64 = u64::MAX - 1;

impl LoadClient {
    pub(super) fn on_inclusion(&mut self, broker: u32, at: u32, inclusion: Inclusion, turn: &mut Step<'_>) {
        let payload = self.payload();
        let Some(member) = self.members.get_mut(at as usize) else { return };
        if member.stage != Stage::Flying {
            return;
        }
        let (domains, rules) = (self.crowd.cluster.domains(), self.crowd.cluster.rules());
        let Inclusion { root, k, shape, proof, height, closed } = &inclusion;
        let entry = Entry { id: member.id, message: &payload, parity: member.parity };
        let counted = (1..=rules.batch_max).contains(&shape.count);
        let fits = counted && shape.msg_size == self.crowd.class.msg_size();
        if !fits || proof.root(domains, shape, &entry) != Some(*root) {
            self.stats.false_inclusions += 1;
            return;
        }
        self.stats.inclusions += 1;
        let commit = root_commit(domains, *k, shape, root);
        let half: Half = commit.0.first_chunk().copied().unwrap_or_default();
        let (k, closed) = (*k, *closed);
        if let Some(height) = height {
            self.height = self.height.max(height.statement.height);
        }
        member.included |= broker == member.broker;
        self.roots.know(half, commit, *shape);
        let index = proof.index;
        let (receipts, patience) = (self.crowd.receipts, member.patience);
        let shown =
            Shown { half, index, signed: false, proof: receipts.then(|| Box::new(inclusion.clone())) };
        let (k0, height) = (member.k0, self.height);
        let shown = member.remember(shown);
        let may = !closed && (k0..height).contains(&k) && k <= K_MAX;
        if may && !shown.signed {
            shown.signed = true;
            member.next_k = member.next_k.max(k.saturating_add(1));
        } else if !shown.signed {
            self.set_due(at, Some(patience));
            return;
        }
        self.set_due(at, Some(patience));
        self.share(at, broker, half, turn);
    }

    /// Sends the member's share of this root, once it is made.
    fn share(&mut self, at: u32, broker: u32, half: Half, turn: &mut Step<'_>) {
        let Some(conduct) = self.members.get(at as usize).map(|member| member.conduct) else { return };
        match conduct {
            Conduct::Silent | Conduct::Forged => return,
            Conduct::NoShare => return self.multi_sig(at, broker, half, BlsShareBytes([255; 192]), turn),
            Conduct::Correct | Conduct::OtherShare => {}
        }
        let (part, count) = (at / TOGETHER * TOGETHER, self.crowd.members.1);
        let Some(root) = self.roots.get_mut(&half) else { return };
        let commit = root.commit;
        match root.shares.get_mut(&part) {
            Some(Shares::Made(shares)) => {
                let shares = shares.clone();
                self.send_share(at, broker, half, &shares, turn);
            }
            Some(Shares::Waiting(waiting)) => waiting.push((at, broker)),
            None => {
                root.shares.insert(part, Shares::Waiting(vec![(at, broker)]));
                let of = (part, TOGETHER.min(count - part));
                self.compute(Task::Shares(half, commit, of), 0, turn);
            }
        }
    }

    pub(super) fn shares_made(
        &mut self,
        half: &Half,
        part: u32,
        shares: Arc<Vec<BlsShareBytes>>,
        turn: &mut Step<'_>,
    ) {
        let Some(root) = self.roots.get_mut(half) else { return };
        let old = root.shares.insert(part, Shares::Made(shares.clone()));
        let Some(Shares::Waiting(waiting)) = old else { return };
        for (at, broker) in waiting {
            self.send_share(at, broker, *half, &shares, turn);
        }
    }

    fn send_share(
        &mut self,
        at: u32,
        broker: u32,
        half: Half,
        shares: &[BlsShareBytes],
        turn: &mut Step<'_>,
    ) {
        let Some(member) = self.members.get(at as usize) else { return };
        let mut place = (at % TOGETHER) as usize;
        if member.conduct == Conduct::OtherShare {
            // The share of its neighbour: a signature, but not its own.
            place = (place + 1) % shares.len().max(2);
        }
        if let Some(share) = shares.get(place).cloned() {
            self.multi_sig(at, broker, half, share, turn);
        }
    }

    fn multi_sig(&mut self, at: u32, broker: u32, root: Half, share: BlsShareBytes, turn: &mut Step<'_>) {
        let Some(id) = self.members.get(at as usize).map(|member| member.id) else { return };
        self.stats.shares += 1;
        let message = ClientMessage::MultiSig { id, root_commit: root, share: Box::new(share) };
        self.say(at, broker, message, turn);
    }
}
