//! A replica that lies with its own key: different messages under one number (B4), false acknowledgements (B7), certificates of nothing
//! (B9), registers of anything (B14), batches that nobody asked for (B15), and bad answers to those who catch up (B16).

use std::collections::BTreeMap;

use synod_crypto::{Hash, Keys};
use synod_machine::register::{Held, RegisterOp};
use synod_machine::{Message as _, To};
use synod_quorum::{Epoch, NodeId};
use synod_sim::{Act, Deed, Family, Incident, Strategy};
use synod_ubft::message::{Message, Replied};
use synod_ubft::replica::{Summary, Word};
use synod_ubft::{Config, ctb};
use synod_wire::{Blob, Bytes};

use super::super::sight::{opened, sealed};
use super::craft;

const HALF: u32 = 500_000;
/// Most numbers for which it remembers what it told whom.
const TOLD_MAX: usize = 256;

/// What becomes of a message.
enum Edited {
    Same,
    Other(Box<Message>),
    Nothing,
}

fn other(message: Option<Message>) -> Edited {
    message.map_or(Edited::Same, |message| Edited::Other(Box::new(message)))
}

/// Another message in the place of one of its own, and who gets it: a bit for each replica.
struct Double {
    body: Bytes,
    others: u64,
}

/// The lying replica.
pub(crate) struct Liar {
    genesis: Config,
    family: Family,
    amount: u64,
    doubles: BTreeMap<(Epoch, u64), Option<Double>>,
    wrote: Vec<Held>,
}

impl Liar {
    pub(crate) fn new(genesis: Config, incident: &Incident) -> Self {
        let amount = incident.amount.unsigned_abs();
        Self { genesis, family: incident.family, amount, doubles: BTreeMap::new(), wrote: Vec::new() }
    }

    /// The other message of a number, made when it is first said.
    fn double(
        &mut self,
        act: &mut Act<'_>,
        (epoch, k): (Epoch, u64),
        body: Option<&Bytes>,
    ) -> Option<&Double> {
        while self.doubles.len() > TOLD_MAX {
            self.doubles.pop_first();
        }
        if let (None, Some(body)) = (self.doubles.get(&(epoch, k)), body) {
            let made = act.draws.chance(HALF).then(|| craft::another(act, body)).flatten();
            let others = act.draws.draw();
            self.doubles.insert((epoch, k), made.map(|body| Double { body, others }));
        }
        self.doubles.get(&(epoch, k))?.as_ref()
    }

    /// B4: some are told another message, which is signed as well, or for them alone, or for nobody.
    fn equivocate(
        &mut self,
        act: &mut Act<'_>,
        keys: &Keys,
        to: NodeId,
        word: (Epoch, ctb::Message),
    ) -> Edited {
        let (me, amount) = (act.node, self.amount);
        let (epoch, said) = word;
        let (k, body) = match &said {
            ctb::Message::Lock { k, body } => (*k, Some(body.bytes().clone())),
            ctb::Message::Signed { broadcaster, k, .. } if Some(*broadcaster) == me.member() => (*k, None),
            _ => return Edited::Same,
        };
        let Some(double) = self.double(act, (epoch, k), body.as_ref()) else { return Edited::Same };
        let (other, is_other) = (double.body.clone(), double.others >> (to.0 % 64) & 1 == 1);
        let word = match said {
            ctb::Message::Lock { k, .. } if is_other => match other.try_into() {
                Ok(body) => ctb::Message::Lock { k, body },
                Err(_) => return Edited::Same,
            },
            ctb::Message::Lock { .. } => return Edited::Same,
            _ => {
                let gets_other = match amount % 4 {
                    0 => is_other,
                    1 => true,
                    2 => !is_other,
                    _ => act.draws.chance(HALF),
                };
                if !gets_other {
                    return Edited::Same;
                }
                match craft::shown(&self.genesis, (me, epoch), keys, (k, &other)) {
                    Some(word) => word,
                    None => return Edited::Same,
                }
            }
        };
        let Some(broadcaster) = me.member() else { return Edited::Same };
        Edited::Other(Box::new(Message::Word { epoch, word: Word::Ctb { broadcaster, word } }))
    }

    /// Says with its own key, unasked, the second message of a number to whoever asks for it or to all.
    fn show_double(&mut self, act: &mut Act<'_>, keys: &Keys) -> bool {
        if self.amount.is_multiple_of(2) || !act.draws.chance(60_000) {
            return false;
        }
        let doubles: Vec<(Epoch, u64, Bytes)> = self
            .doubles
            .iter()
            .filter_map(|((epoch, k), double)| Some((*epoch, *k, double.as_ref()?.body.clone())))
            .collect();
        let (Some((epoch, k, body)), Some(broadcaster)) =
            (act.draws.pick(&doubles).cloned(), act.node.member())
        else {
            return false;
        };
        let replicas: Vec<NodeId> =
            act.peers.iter().copied().filter(|id| self.genesis.roster.member(*id).is_some()).collect();
        let Some(to) = act.draws.pick(&replicas).copied() else { return false };
        let Some(word) = craft::shown(&self.genesis, (act.node, epoch), keys, (k, &body)) else {
            return false;
        };
        let message = Message::Word { epoch, word: Word::Ctb { broadcaster, word } };
        act.inject(to, message.queue(), sealed(&message));
        true
    }

    /// B9, B15: what is said in the own stream proves less than it must, to all alike.
    fn forge(&mut self, act: &mut Act<'_>, keys: &Keys, word: (Epoch, ctb::Message)) -> Edited {
        let (me, (epoch, said)) = (act.node, word);
        let Some(broadcaster) = me.member() else { return Edited::Same };
        let (k, body) = match &said {
            ctb::Message::Lock { k, body } => (*k, Some(body.bytes().clone())),
            ctb::Message::Signed { broadcaster: of, k, .. } if *of == broadcaster => (*k, None),
            _ => return Edited::Same,
        };
        if let (None, Some(body)) = (self.doubles.get(&(epoch, k)), &body) {
            let share = if self.amount.is_multiple_of(2) { 30_000 } else { 200_000 };
            let is_lie = act.draws.chance(share);
            let made = match self.family {
                Family::ByzBatches => is_lie.then(|| craft::another(act, body)).flatten(),
                _ => is_lie.then(|| craft::unproven(act, body)).flatten(),
            };
            self.doubles.insert((epoch, k), made.map(|body| Double { body, others: u64::MAX }));
        }
        let Some(Some(Double { body: made, .. })) = self.doubles.get(&(epoch, k)) else {
            return Edited::Same;
        };
        let word = match said {
            ctb::Message::Lock { k, .. } => {
                made.clone().try_into().ok().map(|body| ctb::Message::Lock { k, body })
            }
            _ => craft::shown(&self.genesis, (me, epoch), keys, (k, made)),
        };
        other(word.map(|word| Message::Word { epoch, word: Word::Ctb { broadcaster, word } }))
    }

    /// B7: locks, promises, shares and results of something else, each to whom it pleases.
    fn acknowledge(act: &mut Act<'_>, message: Message) -> Edited {
        if !act.draws.chance(200_000) {
            return Edited::Same;
        }
        other(match message {
            Message::Word { epoch, word } => {
                let word = match word {
                    Word::Ctb { broadcaster, word: ctb::Message::Locked { broadcaster: of, k, .. } } => {
                        let promise = act.draws.chance(500_000);
                        let told = ctb::Told::Digest(Hash::of(&act.draws.draw().to_le_bytes()));
                        Word::Ctb {
                            broadcaster,
                            word: ctb::Message::Locked { broadcaster: of, k, told, promise },
                        }
                    }
                    Word::WillCertify { view, slot, tag } => Word::WillCommit { view, slot, tag },
                    Word::WillCommit { .. } => return Edited::Nothing,
                    Word::Certify { view, slot, digest, mut signature } => {
                        signature.0[3] ^= 1;
                        Word::Certify { view, slot, digest, signature }
                    }
                    Word::CertifySummary { mut summarized, signature } => {
                        summarized.state = Hash::of(b"another");
                        Word::CertifySummary { summarized, signature }
                    }
                    _ => return Edited::Same,
                };
                Some(Message::Word { epoch, word })
            }
            Message::Reply { session, id, is_slow, .. } => {
                let false_one = Blob::try_from(Bytes::from(vec![9; 16])).ok();
                false_one.map(|body| Message::Reply { session, id, result: Replied::Full(body), is_slow })
            }
            Message::Answer { id, .. } => {
                let body = Blob::try_from(Bytes::copy_from_slice(&act.draws.below(200).to_le_bytes())).ok();
                Some(Message::Answer { id, value: body })
            }
            Message::Echo { session, id, .. } => {
                Some(Message::Echo { session, id, op: Hash::of(b"another") })
            }
            _ => None,
        })
    }

    /// B16, and B9 of what is not in a stream: bad answers to those who miss something.
    fn serve(act: &mut Act<'_>, message: Message) -> Edited {
        other(match message {
            Message::Log { from, batches } => {
                let mut batches: Vec<_> = batches.into_vec();
                if let Some(last) = batches.last_mut() {
                    last.time_ms ^= 1;
                }
                batches.try_into().ok().map(|batches| Message::Log { from, batches })
            }
            Message::Chunk { low, part, bytes, path } => {
                let mut changed = bytes.bytes().to_vec();
                if let Some(byte) = changed.last_mut() {
                    *byte ^= 1;
                }
                Blob::try_from(Bytes::from(changed)).ok().map(|bytes| Message::Chunk {
                    low,
                    part,
                    bytes,
                    path,
                })
            }
            Message::Standing(mut standing) => {
                if let Some(newest) = &standing.newest {
                    standing.newest = Some(craft::hollow(act, newest));
                }
                Some(Message::Standing(standing))
            }
            Message::Word { epoch, word } => {
                let word = match word {
                    Word::Summary(summary) => {
                        let Summary { certificate, mut state } = *summary;
                        let certificate = match act.draws.below(2) {
                            0 => craft::hollow(act, &certificate),
                            _ => certificate,
                        };
                        state.view.0 += act.draws.below(2);
                        Word::Summary(Box::new(Summary { certificate, state }))
                    }
                    Word::Checkpoint(certificate) => {
                        Word::Checkpoint(Box::new(craft::hollow(act, &certificate)))
                    }
                    Word::Content { digest, at, total, bytes } => {
                        let mut changed = bytes.bytes().to_vec();
                        if let Some(byte) = changed.first_mut() {
                            *byte ^= 1;
                        }
                        match Blob::try_from(Bytes::from(changed)) {
                            Ok(bytes) => Word::Content { digest, at, total, bytes },
                            Err(_) => return Edited::Same,
                        }
                    }
                    _ => return Edited::Same,
                };
                Some(Message::Word { epoch, word })
            }
            _ => None,
        })
    }

    fn edit(&mut self, act: &mut Act<'_>, to: NodeId, message: Message) -> Edited {
        let keys = act.keys;
        let Some(keys) = keys.get(&act.node) else { return Edited::Same };
        let own = |broadcaster: u8| Some(broadcaster) == act.node.member();
        match (self.family, message) {
            (Family::ByzEquivocate, Message::Word { epoch, word: Word::Ctb { broadcaster, word } })
                if own(broadcaster) =>
            {
                self.equivocate(act, keys, to, (epoch, word))
            }
            (
                Family::ByzForge | Family::ByzBatches,
                Message::Word { epoch, word: Word::Ctb { broadcaster, word } },
            ) if own(broadcaster) => self.forge(act, keys, (epoch, word)),
            (Family::ByzAcks, message) => Self::acknowledge(act, message),
            (Family::ByzSync | Family::ByzForge, message) if act.draws.chance(HALF) => {
                Self::serve(act, message)
            }
            _ => Edited::Same,
        }
    }

    /// B14: registers get what its broadcaster did not sign, what is of another number, or something else at each node.
    fn register(&mut self, act: &mut Act<'_>, op: &mut RegisterOp) -> bool {
        let RegisterOp::Write { held, .. } = op else { return false };
        let honest = *held;
        match act.draws.below(5) {
            0 => {
                if let Some(byte) = held.value.first_mut() {
                    *byte ^= 1;
                }
            }
            1 => held.stamp += 16 * act.draws.below(3),
            2 => {
                if let Some(old) = act.draws.pick(&self.wrote) {
                    held.value = old.value;
                }
            }
            3 => held.value = [7; 96],
            _ => {}
        }
        if self.wrote.len() < TOLD_MAX {
            self.wrote.push(honest);
        }
        *held != honest
    }
}

impl Strategy for Liar {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let deeds = core::mem::take(act.deeds);
        let mut kept = Vec::with_capacity(deeds.len());
        let mut is_changed = false;
        for deed in deeds {
            match deed {
                Deed::Send { to: To::Node(to), queue, body } => {
                    let edited = match opened(&body) {
                        Some(message) => self.edit(act, to, message),
                        None => Edited::Same,
                    };
                    let body = match edited {
                        Edited::Same => body,
                        Edited::Nothing => {
                            is_changed = true;
                            continue;
                        }
                        Edited::Other(other) => {
                            is_changed = true;
                            if other.queue() == queue { sealed(&other) } else { body }
                        }
                    };
                    kept.push(Deed::Send { to: To::Node(to), queue, body });
                }
                Deed::Register { to, queue, mut op } if self.family == Family::ByzRegisters => {
                    is_changed |= self.register(act, &mut op);
                    kept.push(Deed::Register { to, queue, op });
                }
                other => kept.push(other),
            }
        }
        kept.append(act.deeds);
        *act.deeds = kept;
        let keys = act.keys;
        if let (Family::ByzEquivocate, Some(keys)) = (self.family, keys.get(&act.node)) {
            is_changed |= self.show_double(act, keys);
        }
        is_changed
    }
}
