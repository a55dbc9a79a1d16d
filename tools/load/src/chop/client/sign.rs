//! Signing roots under which a message stands.

use synod_chopchop::columns::Entry;
use synod_chopchop::message::{ClientMessage, Inclusion};
use synod_chopchop::statement::BlsShareBytes;
use synod_machine::Time;

use super::config::Conduct;
use super::job::Task;
use super::machine::{LoadClient, Step};
use super::member::{Half, Shown, Stage};
use super::root::{Signs, TOGETHER};

/// The highest number that leaves a free one above it.
const K_MAX: u64 = u64::MAX - 1;

impl LoadClient {
    pub(super) fn on_inclusion(&mut self, broker: u32, at: u32, inclusion: Inclusion, turn: &mut Step<'_>) {
        let payload = self.payload(at);
        let Some(member) = self.members.get_mut(at as usize) else { return };
        if member.stage != Stage::Flying {
            return;
        }
        let (domains, rules) = (self.crowd.cluster.domains(), self.crowd.cluster.rules());
        let Inclusion { k, shape, ref height, closed, .. } = inclusion;
        let entry = Entry { id: member.id, message: &payload, parity: member.parity };
        let counted = (1..=rules.batch_max).contains(&shape.count);
        let fits = counted && shape.msg_size == self.crowd.class.msg_size();
        let shown = if fits { self.roots.show(domains, &inclusion, &entry) } else { None };
        let Some(half) = shown else {
            self.stats.false_inclusions += 1;
            return;
        };
        self.stats.inclusions += 1;
        if let Some(height) = height {
            self.height = self.height.max(height.statement.height);
        }
        let index = inclusion.proof.index;
        let proof = self.crowd.receipts.then(|| Box::new(inclusion));
        let (k0, height) = (member.k0, self.height);
        let shown = member.remember(Shown { half, index, signed: false, waits: false, proof });
        let may = !closed && (k0..height).contains(&k) && k <= K_MAX;
        let (signs, waits) = (may || shown.signed, shown.waits);
        if may && !shown.signed {
            shown.signed = true;
            member.next_k = member.next_k.max(k.saturating_add(1));
        }
        self.included(at, broker, turn.now());
        if signs && !waits {
            self.share(at, broker, half, turn);
        }
    }

    /// The member's message was shown its place: the broker is there, and does its work.
    fn included(&mut self, at: u32, broker: u32, now: Time) {
        let Some(member) = self.members.get_mut(at as usize) else { return };
        let took = now.since(member.since);
        let (is_first, is_once) = (!member.included && broker == member.broker, member.attempts == 0);
        self.unshown -= u32::from(core::mem::take(&mut member.unshown));
        if is_first {
            member.included = true;
            let rounds = member.rounds;
            if is_once && rounds == 0 {
                self.inclusion_trip.add(took);
            }
            let patience = now + self.patience(rounds);
            if let Some(member) = self.members.get_mut(at as usize) {
                member.patience = patience;
            }
            self.set_due(at, Some(patience));
        }
    }

    /// Has the member's share of this root made and sent.
    fn share(&mut self, at: u32, broker: u32, half: Half, turn: &mut Step<'_>) {
        let count = self.crowd.members.1;
        let Some(member) = self.members.get_mut(at as usize) else { return };
        let signer = match member.conduct {
            Conduct::Silent | Conduct::Forged => return,
            Conduct::NoShare => {
                return self.multi_sig(at, broker, half, Box::new(BlsShareBytes([255; 192])), turn);
            }
            Conduct::Correct => at,
            // The share of its neighbour: a signature, but not its own.
            Conduct::OtherShare => (at + 1) % count.max(2),
        };
        if let Some(shown) = member.shown.iter_mut().find(|shown| shown.half == half) {
            shown.waits = true;
        }
        if let Some(root) = self.roots.get_mut(&half) {
            root.waiting.push_back((at, signer, broker));
        }
        self.make_shares(half, turn);
    }

    /// Has the shares of those that wait made, unless a job makes others: the more wait, the more are made together.
    fn make_shares(&mut self, half: Half, turn: &mut Step<'_>) {
        let Some(root) = self.roots.get_mut(&half).filter(|root| !root.is_busy) else { return };
        if root.waiting.is_empty() {
            return;
        }
        let count = root.waiting.len().min(TOGETHER);
        let signs: Vec<Signs> = root.waiting.drain(..count).collect();
        root.is_busy = true;
        let task = Task::Shares(half, root.commit, root.from.clone(), signs);
        self.compute(task, 0, turn);
    }

    pub(super) fn shares_made(
        &mut self,
        half: Half,
        shares: Vec<(u32, u32, BlsShareBytes)>,
        turn: &mut Step<'_>,
    ) {
        if let Some(root) = self.roots.get_mut(&half) {
            root.is_busy = false;
        }
        self.make_shares(half, turn);
        for (at, broker, share) in shares {
            if self.members.get_mut(at as usize).is_some_and(|member| member.signs_now(&half)) {
                self.multi_sig(at, broker, half, Box::new(share), turn);
            }
        }
    }

    fn multi_sig(
        &mut self,
        at: u32,
        broker: u32,
        root_commit: Half,
        share: Box<BlsShareBytes>,
        turn: &mut Step<'_>,
    ) {
        let Some(id) = self.members.get(at as usize).map(|member| member.id) else { return };
        self.stats.shares += 1;
        self.say(at, broker, ClientMessage::MultiSig { id, root_commit, share }, turn);
    }
}
