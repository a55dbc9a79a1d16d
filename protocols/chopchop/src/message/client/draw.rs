//! Drawn client messages: well formed, mostly small.

use synod_crypto::Hash;
use synod_quorum::NodeSet;
use synod_wire::{Blob, Bytes, Draw, Drawn};

use super::{ClientMessage, Delivery, ExceptionProof, Inclusion, Signed, StateAnswer, Submit};
use crate::certificate::{Aggregate, HeightCertificate, Signers};
use crate::tree::{EntryProof, TreeShape, path_len};

fn path(from: &mut Drawn, count: u32) -> Vec<Hash> {
    (0..count).map(|_| Hash::draw(from)).collect()
}

impl Draw for Submit {
    fn draw(from: &mut Drawn) -> Self {
        let longest = if from.below(8) == 0 { 1_024 } else { 16 };
        let bytes: Bytes = (0..=from.below(longest)).map(|_| u8::draw(from)).collect();
        Self {
            id: Draw::draw(from),
            k0: Draw::draw(from),
            message: Blob::try_from(bytes).unwrap_or_default(),
            parity: Draw::draw(from),
            t: Draw::draw(from),
            legitimacy: Draw::draw(from),
        }
    }
}

impl Draw for Inclusion {
    fn draw(from: &mut Drawn) -> Self {
        let msg_size = u16::try_from(from.below(40)).unwrap_or(0);
        let most = [4, 100, 65_536][index(from, 3)];
        let count = 1 + u32::try_from(from.below(most)).unwrap_or(0);
        let shape = TreeShape { count, msg_size };
        let index = u32::try_from(from.below(u64::from(count))).unwrap_or(0);
        let neighbours = (0..shape.neighbour_bytes()).map(|_| u8::draw(from)).collect();
        let path = path(from, shape.path_len(index).unwrap_or(0));
        Self {
            root: Draw::draw(from),
            k: Draw::draw(from),
            shape,
            proof: EntryProof { index, neighbours, path },
            height: Draw::draw(from),
            closed: Draw::draw(from),
        }
    }
}

fn index(from: &mut Drawn, below: u64) -> usize {
    usize::try_from(from.below(below)).unwrap_or(0)
}

impl Draw for Delivery {
    fn draw(from: &mut Drawn) -> Self {
        let exc_count = if bool::draw(from) { 0 } else { u32::draw(from).max(1) };
        let length = u32::try_from(from.below(13)).unwrap_or(0);
        let exception = ExceptionProof { leaf: Draw::draw(from), path: path(from, length) };
        Self {
            root_commit: Draw::draw(from),
            height: Draw::draw(from),
            digest: Draw::draw(from),
            exceptions_root: Draw::draw(from),
            exc_count,
            aggregate: Draw::draw(from),
            exception: (exc_count > 0).then_some(exception),
        }
    }
}

impl Draw for StateAnswer {
    fn draw(from: &mut Drawn) -> Self {
        let members = 1 + u32::try_from(from.below(128)).unwrap_or(0);
        let mut aggregate = || {
            let set = NodeSet::draw(from).and(NodeSet::first(members));
            let signers = Signers::new(set, members);
            let signers = signers.unwrap_or_else(|| unreachable!("the set was cut to the members"));
            Aggregate { signers, signature: Draw::draw(from) }
        };
        let (first, second) = (aggregate(), aggregate());
        let height = HeightCertificate { statement: Draw::draw(from), aggregate: second };
        Self { next_k: Draw::draw(from), tag: Draw::draw(from), aggregate: first, height }
    }
}

impl Draw for Signed {
    fn draw(from: &mut Drawn) -> Self {
        let count = 1 + u32::try_from(from.below(300)).unwrap_or(0);
        let index = u32::try_from(from.below(u64::from(count))).unwrap_or(0);
        Self {
            height: Draw::draw(from),
            digest: Draw::draw(from),
            index,
            count,
            id: Draw::draw(from),
            path: path(from, path_len(index, count).unwrap_or(0)),
            exc_count: Draw::draw(from),
            aggregate: Draw::draw(from),
        }
    }
}

impl Draw for ClientMessage {
    fn draw(from: &mut Drawn) -> Self {
        match from.below(12) {
            0 => Self::Submit(Draw::draw(from)),
            1 => Self::Inclusion(Draw::draw(from)),
            2 => Self::MultiSig {
                id: Draw::draw(from),
                root_commit: Draw::draw(from),
                share: Box::new(Draw::draw(from)),
            },
            3 => Self::Delivery(Draw::draw(from)),
            4 => Self::Ack { height: Draw::draw(from) },
            5 => Self::Nack { why: Draw::draw(from), retry_ms: Draw::draw(from) },
            6 => Self::Query { nonce: Draw::draw(from), id: Draw::draw(from) },
            7 => Self::State(Draw::draw(from)),
            8 => Self::SignUp(Draw::draw(from)),
            9 => Self::Signed(Draw::draw(from)),
            10 => Self::Challenge { nonce: Draw::draw(from) },
            _ => Self::Claim { id: Draw::draw(from), signature: Draw::draw(from) },
        }
    }
}
