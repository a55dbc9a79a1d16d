//! What members say, as the oracles see it: endorsements, certificates, votes, receipts, and words on payments.

use std::collections::BTreeSet;

use synod_astro::{Credit, Profile, Sub, Word};
use synod_broadcast::Lot;
use synod_broadcast::bracha;
use synod_broadcast::signed::{self, Certificate};
use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_wire::{Blob, Bytes};

use super::Watch;
use crate::oracle::astro::{Backed, Vote, quorum};
use crate::oracle::{Breach, Verdict, breach};
use crate::systems::astro::sight::{self, Heard};

impl Watch {
    pub(super) fn said(&mut self, node: u32, honest: bool, body: &Bytes) -> Verdict {
        match sight::heard(self.profile, body) {
            Some(Heard::Signed(message)) => self.said_signed((node, honest), message, body),
            Some(Heard::Votes(message)) => self.said_votes((node, honest), message),
            Some(Heard::Own(word)) => self.said_own((node, honest), word),
            None => Ok(()),
        }
    }

    fn said_own(&mut self, (node, honest): (u32, bool), word: Word) -> Verdict {
        match word {
            Word::Here(line) if self.profile != Profile::II => {
                self.learn_line(&line);
                Ok(())
            }
            Word::CutSign(sign) if honest && u32::from(sign.member) == node => {
                self.domain.cut(node, &sign)?;
                let truth = self.acks.honest(u32::from(sign.proposer)) && !self.over_budget;
                if truth { self.cuts.sign(node, &sign) } else { Ok(()) }
            }
            Word::Receipt(receipt) if honest => {
                self.domain.receipted(node, &receipt)?;
                self.receipted(node, receipt.digest, receipt.open.items())
            }
            Word::Credit(credit) if honest => {
                self.domain.vouched(node, &credit)?;
                self.vouched(node, &credit)
            }
            Word::Witnessed(word) if honest => self.domain.looked(node, &word),
            _ => Ok(()),
        }
    }

    fn said_signed(
        &mut self,
        (node, honest): (u32, bool),
        message: signed::Message,
        body: &Bytes,
    ) -> Verdict {
        match message {
            signed::Message::Prepare { lot, payload, signature } => {
                let digest = self.proposed(node, lot, &payload);
                let Some(digest) = digest.filter(|_| honest && u32::from(lot.source) == node) else {
                    return Ok(());
                };
                self.domain.prepared(node, (lot, digest), signature)?;
                self.spends(node, digest)?;
                self.acked(node, (lot, digest), &[])
            }
            signed::Message::Pulled { payload, .. } => {
                self.learn(&payload);
                Ok(())
            }
            signed::Message::Ack(ack) if honest && u32::from(ack.said.member) == node => {
                self.domain.acked(node, (ack.lot, ack.digest), &ack.said)?;
                self.acked(node, (ack.lot, ack.digest), ack.said.except.items())
            }
            signed::Message::Commit(certificate) if honest => {
                self.said_in(node, &certificate)?;
                self.certified(node, &certificate)?;
                if self.reached.contains(&(node, Hash::of(body))) {
                    return Ok(());
                }
                let lists = certificate.said.iter().map(|said| said.except.items());
                self.acks.gather(&self.texts, (node, certificate.digest), lists)
            }
            _ => Ok(()),
        }
    }

    /// A-S7 of whoever represents: it shows each payment with one entry of each whom it pays.
    fn spends(&mut self, node: u32, digest: Hash) -> Verdict {
        let Some(batch) = self.texts.batch(&digest) else { return Ok(()) };
        for (at, with) in &batch.backed {
            let place = usize::try_from(*at).ok().and_then(|at| batch.lines.get(at));
            let Some((id, _)) = place else { continue };
            for payment in with {
                let first = *self.showing.entry((node, id.spender, payment.id)).or_insert(*id);
                if first != *id {
                    let what = format!("member {node} shows {:?} with {first:?} and with {id:?}", payment.id);
                    return breach("A-S7", what);
                }
            }
        }
        Ok(())
    }

    /// Who sends a certificate says what it signed in it, if a crash kept it from saying so before.
    fn said_in(&mut self, node: u32, certificate: &Certificate) -> Verdict {
        let slot = sight::slot(certificate.lot);
        let own = certificate.said.iter().find(|said| u32::from(said.member) == node);
        let Some(own) = own.filter(|_| !self.acks.has_said(node, slot, &certificate.digest)) else {
            return Ok(());
        };
        self.keeping.said((node, slot), certificate.digest, own.except.items())?;
        self.acks.say(&self.texts, (node, slot), (certificate.digest, own.except.items()))
    }

    fn said_votes(&mut self, (node, honest): (u32, bool), message: bracha::Message) -> Verdict {
        match message {
            bracha::Message::Prepare { sequence, payload } => {
                let source = u8::try_from(node).unwrap_or(u8::MAX);
                self.proposed(node, Lot { source, sequence }, &payload);
                Ok(())
            }
            bracha::Message::Pulled { payload, .. } => {
                self.learn(&payload);
                Ok(())
            }
            bracha::Message::Echo(vote) if honest => {
                self.votes.say(node, (Vote::Echo, sight::slot(vote.lot), vote.digest))?;
                match self.payloads.get(&vote.digest).copied() {
                    Some(digest) => self.acked(node, (vote.lot, digest), &[]),
                    None => {
                        breach("X3", format!("member {node} echoes what nobody showed in {:?}", vote.lot))
                    }
                }
            }
            bracha::Message::Ready(vote) if honest => {
                let slot = sight::slot(vote.lot);
                self.votes.say(node, (Vote::Ready, slot, vote.digest))?;
                // Its own echo counts among those that made it ready once that is on its disk, though a crash came before it left.
                let digest = self.payloads.get(&vote.digest).copied();
                let own = digest.filter(|digest| self.keeping.said((node, slot), *digest, &[]).is_ok());
                own.map_or(Ok(()), |digest| self.acked(node, (vote.lot, digest), &[]))
            }
            _ => Ok(()),
        }
    }

    /// A batch that somebody broadcasts, in its own lane or in another's.
    fn proposed<const MAX: usize>(&mut self, node: u32, lot: Lot, payload: &Blob<MAX>) -> Option<Hash> {
        let digest = self.learn(payload)?;
        if u32::from(lot.source) == node {
            self.texts.broadcast(&digest);
        }
        Some(digest)
    }

    /// X3 of words on payments: all that a member vouches for has settled there, and was paid.
    fn vouched(&self, node: u32, credit: &Credit) -> Verdict {
        let open = credit.vouch.open.items();
        let all: Vec<(EntryId, Hash)> = match credit.of {
            Sub::Entry(id) => {
                let book = self.book.borrow();
                book.agreed.get(&id).map(|digest| (id, *digest)).into_iter().collect()
            }
            Sub::Batch { lot, registrar } => {
                let slot = sight::slot(lot);
                let batches = self.texts.batches().filter(|(_, batch)| batch.slot == slot);
                let mut subs = batches.map(|(_, batch)| self.texts.paying(batch, registrar));
                subs.find(|sub| sight::root(&sub.iter().map(|one| one.1).collect::<Vec<_>>()) == credit.root)
                    .unwrap_or_default()
            }
        };
        let told = (0_u32..).zip(&all).filter(|(at, _)| open.binary_search(at).is_err());
        let root = all.iter().map(|one| one.1).collect::<Vec<_>>();
        if all.is_empty() || sight::root(&root) != credit.root {
            return breach("X3", format!("member {node} vouches for {:?}, which nobody showed", credit.of));
        }
        let book = self.book.borrow();
        let Some(reckoning) = book.reckonings.get(&node) else { return Ok(()) };
        for (_, (id, digest)) in told {
            let settled = reckoning.purse(id.spender).is_some_and(|purse| purse.sequence >= id.n);
            if !(settled && book.paid.get(id) == Some(&(*digest, true))) {
                return breach("X3", format!("member {node} vouches for {id:?}, which was not paid there"));
            }
        }
        Ok(())
    }

    /// A-S8: all that an entry spends which a member endorses was paid at a member that tells the truth.
    pub(super) fn backed(&self, node: u32, batch: Hash, except: &[u32]) -> Verdict {
        let book = self.book.borrow();
        let Some(batch) = self.texts.batch(&batch) else { return Ok(()) };
        for (at, with) in batch.backed.iter().filter(|(at, _)| !except.contains(at)) {
            let paid = |with: &&Backed| book.paid.get(&with.id) == Some(&(with.digest, true));
            if let Some(with) = with.iter().find(|with| !paid(with)) {
                let what = format!(
                    "member {node} endorses item {at} of {:?}, which spends {:?}",
                    batch.slot, with.id
                );
                return breach("A-S8", format!("{what}, paid nowhere"));
            }
        }
        Ok(())
    }

    fn acked(&mut self, node: u32, (lot, digest): (synod_broadcast::Lot, Hash), except: &[u32]) -> Verdict {
        let slot = sight::slot(lot);
        self.keeping.said((node, slot), digest, except)?;
        self.funded(node, digest, except)?;
        self.reasoned((node, slot), digest, except)?;
        self.acks.say(&self.texts, (node, slot), (digest, except))
    }

    /// A-S6 and A-S7 of endorsements: behind what settled at a member, all it endorses of a log is paid for by what settled there.
    fn funded(&self, node: u32, digest: Hash, except: &[u32]) -> Verdict {
        if self.profile != Profile::Funded {
            return Ok(());
        }
        let book = self.book.borrow();
        let (Some(batch), Some(reckoning)) = (self.texts.batch(&digest), book.reckonings.get(&node)) else {
            return Ok(());
        };
        for (at, (id, line)) in (0_u32..).zip(&batch.lines) {
            let Some(purse) = reckoning.purse(id.spender) else { continue };
            // A certificate says that members who tell the truth have the money.
            if except.contains(&at) || id.n <= purse.sequence || self.acks.is_certified(*id, line) {
                continue;
            }
            let told =
                |breach: Breach| Breach { what: format!("by member {node}: {}", breach.what), ..breach };
            purse.pays(&self.texts, *id, *line).map_err(told)?;
        }
        Ok(())
    }

    /// A-L4: of a batch of an institution that never lied, a member leaves no entry out that nothing speaks against.
    fn reasoned(&self, (node, slot): (u32, (u8, u64)), digest: Hash, except: &[u32]) -> Verdict {
        let book = self.book.borrow();
        let (Some(batch), Some(reckoning)) = (self.texts.batch(&digest), book.reckonings.get(&node)) else {
            return Ok(());
        };
        let mut before = BTreeSet::new();
        for (at, (id, line)) in (0_u32..).zip(&batch.lines) {
            let is_first = before.insert(id.spender) && book.facts.is_customer(id.spender, slot.0);
            let is_left = except.contains(&at) && self.acks.leaves_out(node, slot, at);
            let is_open = is_first && is_left && !self.acks.is_any_certified(*id);
            if is_open && self.texts.get(line).is_some_and(|entry| reckoning.welcomes(entry)) {
                return breach("A-L4", format!("member {node} leaves {id:?} out of {slot:?} for no reason"));
            }
        }
        Ok(())
    }

    /// A certificate that an honest member sends has a quorum of members, and those of them that never lied signed it.
    fn certified(&self, node: u32, certificate: &Certificate) -> Verdict {
        let mut members: Vec<u8> = certificate.said.iter().map(|said| said.member).collect();
        members.sort_unstable();
        members.dedup();
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
        if count < quorum(self.members) || members.iter().any(|member| u32::from(*member) >= self.members) {
            let what = format!("member {node} sends a certificate of {count} for {:?}", certificate.lot);
            return breach("A-S2", what);
        }
        let slot = sight::slot(certificate.lot);
        let liar = |said: &&signed::Said| self.acks.honest(u32::from(said.member));
        for said in certificate.said.iter().filter(liar) {
            if !self.acks.has_said(u32::from(said.member), slot, &certificate.digest) {
                let what = format!("member {} never signed what is certified in {slot:?}", said.member);
                return breach("A-S2", what);
            }
        }
        Ok(())
    }

    /// X3 of receipts: all that is receipted has settled for good.
    fn receipted(&self, node: u32, digest: Hash, open: &[u32]) -> Verdict {
        let book = self.book.borrow();
        let (Some(batch), Some(reckoning)) = (self.texts.batch(&digest), book.reckonings.get(&node)) else {
            return Ok(());
        };
        for (at, (id, line)) in (0_u32..).zip(&batch.lines) {
            let settled = reckoning.purse(id.spender).is_some_and(|purse| purse.sequence >= id.n);
            if !open.contains(&at) && !(settled && book.agreed.get(id) == Some(line)) {
                return breach("X3", format!("member {node} receipts {id:?}, which has not settled there"));
            }
        }
        Ok(())
    }
}
