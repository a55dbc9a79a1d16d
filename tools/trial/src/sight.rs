//! From what the simulator shows to what the oracles understand: frames, records and outputs of replicas, decoded.

use synod_crypto::{Hash, Hasher};
use synod_hotstuff::{
    CommitProof, Commitment, EntryProof, Header, Kind, Message, Proof, Qc, Record, Safety, Tc, View,
};
use synod_machine::Message as _;
use synod_machine::Record as _;
use synod_machine::broadcast::{Delivered, Entry};
use synod_sim::{Deed, Moment, Seen as Event};
use synod_wire::{Bytes, Limits, Wire};

use crate::oracle::{CertSeen, HeaderSeen, MarkSeen, Phase, SafetySeen, Seen, Sighting};

/// The replica's machine number.
pub const REPLICA: u8 = 0;

/// Decodes a frame body of a replica.
#[must_use]
pub fn opened(body: &Bytes) -> Option<Message> {
    let limits = Limits { frame_max: 16 << 20 };
    (body.first() == Some(&Message::VERSION))
        .then(|| Message::decode(body.slice(1..), &limits).ok())
        .flatten()
}

/// Decodes a record of a replica.
#[must_use]
pub fn recalled(bytes: &Bytes) -> Option<Record> {
    let limits = Limits { frame_max: 64 << 20 };
    (bytes.first() == Some(&Record::VERSION))
        .then(|| Record::decode(bytes.slice(1..), &limits).ok())
        .flatten()
}

const fn phase(kind: Kind) -> Phase {
    match kind {
        Kind::Prepare => Phase::Prepare,
        Kind::Precommit => Phase::Precommit,
        Kind::Commit => Phase::Commit,
        Kind::Generic => Phase::Generic,
        Kind::Order => Phase::Order,
    }
}

const fn mark(view: View, digest: Hash) -> MarkSeen {
    MarkSeen { view: view.0, digest }
}

pub(crate) fn header_of(header: &Header) -> HeaderSeen {
    HeaderSeen {
        own: mark(header.view, header.digest()),
        parent: header.parent,
        justify: header.justify.view.0,
        given_up: header.tc.as_ref().map(|tc| (tc.view.0, tc.highest().0)),
        proposer: u32::from(header.proposer),
        count: u64::from(header.count),
    }
}

fn safety_of(safety: &Safety) -> SafetySeen {
    let of = |mark: synod_hotstuff::Mark| MarkSeen { view: mark.view.0, digest: mark.digest };
    SafetySeen {
        voted: (of(safety.voted), phase(safety.phase)),
        proposed: of(safety.proposed),
        ordered: of(safety.ordered),
        complained: safety.complained.0,
        lock: of(safety.lock),
        high: of(safety.high),
        given_up: safety.tc.0,
    }
}

/// Collects the sightings of one moment.
pub struct Sight<'a> {
    moment: &'a Moment<'a>,
    out: &'a mut Vec<Sighting>,
}

impl<'a> Sight<'a> {
    /// Appends everything `moment` shows to `out`.
    pub fn of(moment: &'a Moment<'a>, out: &'a mut Vec<Sighting>) {
        let mut sight = Self { moment, out };
        match moment.seen {
            Event::Opened { records, .. } => {
                sight.add(Seen::Reopened);
                records.iter().filter_map(recalled).for_each(|record| sight.record(&record));
            }
            Event::Start => sight.add(Seen::Started),
            // An honest member's frame that the network held back: the promise in it is as old as its record.
            Event::Strategy if moment.honest => return,
            _ => {}
        }
        for deed in moment.deeds {
            sight.deed(deed);
        }
    }

    fn add(&mut self, seen: Seen) {
        let Moment { time, node, honest, incarnation, .. } = *self.moment;
        self.out.push(Sighting { at: time.0, node: node.0, honest, incarnation, seen });
    }

    fn deed(&mut self, deed: &Deed) {
        match deed {
            Deed::Append { record, .. } => {
                if let Some(record) = recalled(record) {
                    self.record(&record);
                }
            }
            Deed::Send { body, .. } => {
                if let Some(message) = opened(body) {
                    self.message(&message);
                }
            }
            Deed::Output(output) => {
                if let Some(delivered) = output.downcast_ref::<Delivered>() {
                    self.delivered(delivered);
                }
            }
            Deed::Timer { name, at: Some(_) } => {
                if let Some(view) = view_of(name) {
                    self.add(Seen::Entered(view));
                }
            }
            _ => {}
        }
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::Safety(safety) => self.add(Seen::Safety(safety_of(safety))),
            Record::Qc(qc) => self.qc(qc),
            Record::Tc(tc) => self.tc(tc),
            Record::Block { header, .. } => self.header(header),
            Record::Commit { digest, last } => {
                self.add(Seen::Committed { digest: *digest, last: last.0 });
            }
            Record::Checkpoint(anchor) => {
                self.header(&anchor.header);
                self.add(Seen::Stable(anchor.certificate.state().position.0));
            }
            Record::Listening | Record::Rejoined | Record::Stopped(_) => {}
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::Propose { header, .. } => {
                self.header(header);
                if u32::from(header.proposer) == self.moment.node.0 {
                    self.add(Seen::Proposed(mark(header.view, header.digest())));
                }
            }
            Message::Vote { kind, view, digest, .. } => {
                self.add(Seen::Voted(mark(*view, *digest), phase(*kind)));
            }
            Message::Order { view, digest, .. } => self.add(Seen::Voted(mark(*view, *digest), Phase::Order)),
            Message::Phase(qc) => self.qc(qc),
            Message::NewView { high, .. } => self.qc(high),
            Message::Complain { view, high, .. } => {
                self.qc(high);
                self.add(Seen::Complained { view: view.0, high: high.view.0 });
            }
            Message::Advance(proof) => self.proof(proof),
            Message::Status(status) => {
                self.qc(&status.high);
                if let Some(tc) = &status.tc {
                    self.tc(tc);
                }
            }
            Message::Blocks(blocks) => {
                blocks.headers.iter().for_each(|header| self.header(header));
                if let Some(proof) = &blocks.proof {
                    self.header(&proof.header);
                }
            }
            Message::Body { .. } | Message::Fetch(_) | Message::Forward(_) | Message::Attest { .. } => {}
        }
    }

    fn proof(&mut self, proof: &Proof) {
        match proof {
            Proof::Tc(tc) => self.tc(tc),
            Proof::Qc(qc) => self.qc(qc),
            Proof::Commit(proof) => self.committed(proof),
        }
    }

    fn committed(&mut self, proof: &CommitProof) {
        self.header(&proof.header);
        match &proof.commitment {
            Commitment::Direct(qc) => self.qc(qc),
            Commitment::TwoChain { child, qc } => {
                self.header(child);
                self.qc(qc);
            }
            Commitment::ThreeChain { child, grandchild, qc } => {
                self.header(child);
                self.header(grandchild);
                self.qc(qc);
            }
        }
    }

    /// A proof that somebody asked for; one that does not decode proves nothing.
    fn proved(&mut self, proof: &Bytes) {
        let limits = Limits { frame_max: u32::MAX };
        let Ok(proof) = EntryProof::decode(proof.clone(), &limits) else { return };
        proof.headers.iter().for_each(|header| self.header(header));
        self.committed(&proof.proof);
        self.add(Seen::Proved { position: proof.position.0, id: proof.id });
    }

    fn header(&mut self, header: &Header) {
        self.add(Seen::Header(header_of(header)));
        self.qc(&header.justify);
        if let Some(tc) = &header.tc {
            self.tc(tc);
        }
    }

    fn qc(&mut self, qc: &Qc) {
        if qc.view != View::GENESIS {
            let signers = qc.votes.signers().iter().fold(0, |set, id| set | 1_u128 << id.0);
            let of = mark(qc.view, qc.digest);
            self.add(Seen::Certificate(CertSeen { phase: phase(qc.kind), of, signers }));
        }
    }

    fn tc(&mut self, tc: &Tc) {
        let signers = tc.signers().iter().fold(0, |set, id| set | 1_u128 << id.0);
        self.add(Seen::GaveUp { view: tc.view.0, signers, high: tc.highest().0 });
        self.qc(&tc.high);
    }

    fn delivered(&mut self, delivered: &Delivered) {
        match delivered {
            Delivered::Entry(entry) => {
                let position = entry.position.0;
                self.add(Seen::Delivered { position, content: content(entry) });
                let id = (!entry.payload.is_empty()).then(|| Hash::of(&entry.payload));
                self.add(Seen::Item { position, id });
            }
            Delivered::Proof { proof: Some(proof), .. } => self.proved(proof),
            Delivered::Jump(checkpoint) => self.add(Seen::Jumped(checkpoint.position.0)),
            Delivered::Stable(_)
            | Delivered::Proof { proof: None, .. }
            | Delivered::Barrier(_)
            | Delivered::Refused { .. } => {}
        }
    }
}

/// What all correct members agree about one entry.
pub(crate) fn content(entry: &Entry) -> Hash {
    let mut content = Hasher::new("synod trial entry");
    content.add(&entry.payload).add(&entry.time.0.to_le_bytes()).add(&[u8::from(entry.last)]);
    content.finish()
}

/// The view that a timer's name carries.
#[must_use]
pub fn view_of(timer: &str) -> Option<u64> {
    timer.strip_prefix("View(View(")?.strip_suffix("))")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::view_of;

    #[test]
    fn a_view_timer_names_its_view() {
        assert_eq!(view_of("View(View(12))"), Some(12));
        assert_eq!((view_of("Linger(View(12))"), view_of("Status")), (None, None));
    }
}
