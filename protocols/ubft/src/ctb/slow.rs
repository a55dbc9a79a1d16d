//! The slow delivery (Alg. 1, lines 25 to 37): check, lock, write, and only then read.

use synod_crypto::{Claim, Hash, Verified};
use synod_machine::register::{Held, Place, Region};
use synod_machine::{Event, Turn, planted};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::receiver::{Lock, Slow, Stage, Wanted};
use super::words::{Output, TwoMessages, register_of};
use super::{CtBroadcast, OfRegisters, Side, read_value, statement, value};
use crate::config::NUMBER_END;
use crate::fault::Fault;
use crate::job::{For, Job};
use crate::registers::{Input as Ask, MemoryWords, Output as Told, Registers};
use crate::statement::Statement;
use crate::trace::Rule;

type Checked = Result<Verified<Claim<Statement>>, Claim<Statement>>;

impl CtBroadcast {
    /// A signed message came; whoever passes it on, the broadcaster's signature is what counts. One without its body, which is not locked,
    /// is kept until the body is found, if its broadcaster sent it.
    pub(super) fn on_signed(
        &mut self,
        from: NodeId,
        signed: Wanted,
        body: Option<Bytes>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Wanted { k, digest, .. } = signed;
        let index = self.config.index(k);
        let (body_max, is_own) = (self.config.body_max(), from == self.broadcaster);
        let body = body.filter(|body| body.len() <= body_max && Hash::of(body) == digest);
        if self.waits(k) {
            return self.hold_signed(from, signed, body);
        }
        let Some(slot) = self.receiver().and_then(|receiver| receiver.slot(index)) else { return };
        if slot.locked() == k && !slot.admits(k, digest) {
            // Of another message than the one that is locked, two signatures prove a lie, and one nothing.
            if slot.lock.as_ref().is_some_and(|lock| lock.signature.is_some()) {
                self.check(from, signed, body, turn);
            }
            return;
        }
        if k < slot.locked() || k <= slot.delivered || slot.slow.as_ref().is_some_and(|slow| slow.k >= k) {
            return;
        }
        if slot.locked() == k {
            self.check(from, signed, body, turn);
            return;
        }
        match body {
            Some(body) => self.check(from, signed, Some(body), turn),
            None if is_own && slot.wanted.is_none_or(|wanted| wanted.k <= k) => {
                slot.wanted = Some(signed);
                self.expect(index, false, turn);
                turn.output(Output::Missing { k, digest });
            }
            None => {}
        }
    }

    fn check(&self, from: NodeId, signed: Wanted, body: Option<Bytes>, turn: &mut Turn<'_, Self>) {
        let Some(signer) = self.broadcaster.member() else { return };
        let claim = self.config.claim(statement(signer, signed.k, signed.digest), signed.signature);
        let what = For::Signed { from, body };
        claim.into_iter().for_each(|claim| turn.compute(Job::Check { what: what.clone(), claim }));
    }

    /// A body is here: signed messages that waited for it are checked.
    pub(super) fn on_found(&mut self, body: &Bytes, turn: &mut Turn<'_, Self>) {
        let digest = Hash::of(body);
        let body_max = self.config.body_max();
        let Some(receiver) = self.receiver().filter(|_| body.len() <= body_max) else { return };
        let waiting = receiver
            .slots
            .iter_mut()
            .filter_map(|slot| slot.wanted.take_if(|wanted| wanted.digest == digest));
        let waiting: Vec<Wanted> = waiting.collect();
        for signed in waiting {
            self.check(self.broadcaster, signed, Some(body.clone()), turn);
        }
    }

    /// Lines 26 to 30: the signature is good. Nothing happens unless the lock admits the message (E1).
    pub(super) fn on_good(
        &mut self,
        claim: &Verified<Claim<Statement>>,
        body: Option<Bytes>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Statement::Broadcast { k, digest, .. } = claim.statement else { return };
        let (index, signature) = (self.config.index(k), claim.signature);
        if self.waits(k) {
            return self.hold_signed(self.broadcaster, Wanted { k, digest, signature }, body);
        }
        let Some(slot) = self.receiver().and_then(|receiver| receiver.slot(index)) else { return };
        if !slot.admits(k, digest) {
            let known = slot.lock.as_mut().filter(|lock| lock.k == k);
            if let Some((first, one)) = known.and_then(|lock| Some((lock.signature?, lock.digest()))) {
                self.stop((one, first), (digest, signature), k, turn);
            }
            return;
        }
        if k <= slot.delivered || slot.slow.as_ref().is_some_and(|slow| slow.k >= k) {
            return;
        }
        if slot.locked() < k || !slot.admits(k, digest) {
            let Some(body) = body else { return };
            turn.applied(Rule::LockedBySignature);
            self.lock(Lock::new(k, body), turn);
        }
        let Some(slot) = self.receiver().and_then(|receiver| receiver.slot(index)) else { return };
        if let Some(lock) = slot.lock.as_mut() {
            lock.signature = Some(signature);
        }
        if k <= slot.delivered {
            return;
        }
        slot.slow = Some(Slow { k, digest, signature, stage: Stage::Writing });
        let held = Held { stamp: k, value: value(digest, signature) };
        if let Some(index) = register_of(self.config.me, self.broadcaster, index, self.config.parameters.tail)
        {
            turn.applied(Rule::A1Write);
            self.registers(Event::Input(Ask::Write { index, held }), turn);
        }
        if planted!(U3) {
            self.on_written(k, turn);
        }
    }

    pub(super) fn on_memory(&mut self, from: NodeId, words: MemoryWords, turn: &mut Turn<'_, Self>) {
        self.registers(Event::Message { from, message: words }, turn);
    }

    /// Steps the registers, and acts on what they tell.
    pub(super) fn registers(&mut self, event: Event<Registers>, turn: &mut Turn<'_, Self>) {
        let Side::Receiver { registers, .. } = &mut self.side else { return };
        let told: Vec<Told> = registers.step(event, &OfRegisters, turn).collect();
        for told in told {
            match told {
                Told::Written { stamp, .. } => self.on_written(stamp, turn),
                Told::Values { place, held } => self.on_values(place, &held, turn),
                Told::Retired { oldest } => turn.output(Output::Retired { oldest }),
                Told::Reborn { memory, boot } => turn.output(Output::Reborn { memory, boot }),
            }
        }
    }

    /// Reads a register of another receiver. A read of it that is under way is begun anew, and answered by this one.
    pub(super) fn touch(&mut self, turn: &mut Turn<'_, Self>) {
        let tail = self.config.parameters.tail;
        let owner = self.receiver().and_then(|receiver| receiver.others.iter().next());
        if let Some((index, owner)) =
            owner.and_then(|owner| Some((register_of(owner, self.broadcaster, 0, tail)?, owner.member()?)))
        {
            let region = Region { epoch: self.config.epoch, owner };
            self.registers(Event::Input(Ask::Read(Place { region, index })), turn);
        }
    }

    /// Line 31: the own register is written, so whoever writes another one from now on sees it. The others are read, but for those that
    /// said they locked the same.
    fn on_written(&mut self, k: u64, turn: &mut Turn<'_, Self>) {
        let (index, tail) = (self.config.index(k), self.config.parameters.tail);
        let Some(receiver) = self.receiver() else { return };
        let mut left = receiver.others;
        for other in receiver.others.iter() {
            if receiver.agrees(other, index) && receiver.slot(index).is_some_and(|slot| slot.locked() == k) {
                left.remove(other);
            }
        }
        let slow = receiver.slot(index).and_then(|slot| slot.slow.as_mut());
        let Some(slow) = slow.filter(|slow| slow.k == k && slow.stage == Stage::Writing) else { return };
        slow.stage = Stage::Reading { left, checks: 0 };
        for owner in left.iter() {
            if let (Some(index), Some(owner)) =
                (register_of(owner, self.broadcaster, index, tail), owner.member())
            {
                let region = Region { epoch: self.config.epoch, owner };
                self.registers(Event::Input(Ask::Read(Place { region, index })), turn);
            }
        }
        self.consider(k, turn);
    }

    /// Lines 31 to 36: what the register of another receiver holds.
    fn on_values(&mut self, place: Place, held: &[Held], turn: &mut Turn<'_, Self>) {
        let (tail, owner) = (u64::from(self.config.parameters.tail.max(1)), place.region.owner);
        let index = usize::try_from(u64::from(place.index) % tail).unwrap_or(0);
        let (config, signer) = (std::sync::Arc::clone(&self.config), self.broadcaster.member());
        let slow = self.receiver().and_then(|receiver| receiver.slot(index)?.slow.as_mut());
        let (Some(slow), Some(signer)) = (slow, signer) else { return };
        let Stage::Reading { left, checks } = &mut slow.stage else { return };
        if !left.remove(NodeId(u32::from(owner))) {
            return;
        }
        for held in held {
            let Some((digest, signature)) = read_value(&held.value) else { continue };
            let is_here = held.stamp < NUMBER_END && held.stamp % tail == slow.k % tail;
            let is_same = held.stamp == slow.k && digest == slow.digest;
            if held.stamp < slow.k || !is_here || is_same {
                continue;
            }
            if let Some(claim) = config.claim(statement(signer, held.stamp, digest), signature) {
                *checks += 1;
                turn.compute(Job::Check { what: For::Entry { owner, k: slow.k }, claim });
            }
        }
        let k = slow.k;
        self.consider(k, turn);
    }

    /// An entry is checked: it is the owner's invention, or it stops the delivery.
    pub(super) fn on_entry(&mut self, owner: u8, k: u64, claim: Checked, turn: &mut Turn<'_, Self>) {
        let index = self.config.index(k);
        let Some(slot) = self.receiver().and_then(|receiver| receiver.slot(index)) else { return };
        let Some(slow) = slot.slow.as_mut().filter(|slow| slow.k == k) else { return };
        let Stage::Reading { checks, .. } = &mut slow.stage else { return };
        *checks = checks.saturating_sub(1);
        let believed = match claim {
            Ok(claim) => Some((claim.statement, claim.signature)),
            Err(claim) => planted!(V9).then_some((claim.statement, claim.signature)),
        };
        match believed {
            None => {
                turn.applied(Rule::ForeignEntry);
                turn.blame(NodeId(u32::from(owner)), Fault::RegisterAbuse);
            }
            Some((Statement::Broadcast { k: other, digest, .. }, second)) => {
                if other == k && digest != slow.digest {
                    let one = (slow.digest, slow.signature);
                    self.stop(one, (digest, second), k, turn);
                    return;
                }
                if other > k {
                    turn.applied(Rule::A1OutOfTail);
                    slot.slow = None;
                    return;
                }
            }
            Some(_) => return,
        }
        self.consider(k, turn);
    }

    /// Line 37: nothing that was read speaks of another message.
    fn consider(&mut self, k: u64, turn: &mut Turn<'_, Self>) {
        let index = self.config.index(k);
        let Some(slot) = self.receiver().and_then(|receiver| receiver.slot(index)) else { return };
        let slow = slot.slow.as_ref().filter(|slow| slow.k == k);
        if let Some(Stage::Reading { left, checks: 0 }) = slow.map(|slow| slow.stage)
            && left.is_empty()
        {
            slot.slow = None;
            self.deliver(k, Rule::A1DeliverSlow, turn);
        }
    }

    /// Lines 33 and 34: nothing more of this broadcaster is delivered here.
    fn stop(
        &mut self,
        (one, first): (Hash, synod_crypto::Signature),
        (other, second): (Hash, synod_crypto::Signature),
        k: u64,
        turn: &mut Turn<'_, Self>,
    ) {
        let broadcaster = self.broadcaster;
        let Some((receiver, signer)) = self.receiver().zip(broadcaster.member()) else { return };
        if receiver.is_stopped {
            return;
        }
        receiver.is_stopped = true;
        receiver.slots.iter_mut().for_each(|slot| slot.slow = None);
        let proof =
            TwoMessages { one: statement(signer, k, one), first, other: statement(signer, k, other), second };
        turn.applied(Rule::A1TwoMessages);
        turn.blame(broadcaster, Fault::Equivocation.with(&proof));
        turn.output(Output::Equivocated(proof));
    }
}
