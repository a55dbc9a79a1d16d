//! The fields of replica messages that are worth moving, and signing what was moved.

use synod_crypto::{Hash, Keys, Scope, Signature};
use synod_hotstuff::{Message, Proof, Qc, Statement, View};
use synod_machine::broadcast::Position;
use synod_quorum::{Epoch, NodeId};
use synod_sim::{Lever, LeverKind, Mutator, Pull};
use synod_wire::Bytes;

use super::liar::{Secrets, sealed};
use crate::sight::opened;

/// Opens replica messages.
pub(super) struct Open {
    pub(super) secrets: Secrets,
}

const fn lever(kind: LeverKind, index: u8) -> Lever {
    Lever { kind, index }
}

fn levers(message: &Message) -> Vec<Lever> {
    use LeverKind::{Digest, Id, Parent, Place, Signers};
    let list: &[(LeverKind, u8)] = match message {
        Message::Propose { .. } => &[
            (Place, 0),
            (Place, 1),
            (Place, 2),
            (Place, 3),
            (Place, 4),
            (Digest, 0),
            (Parent, 0),
            (Signers, 0),
            (Id, 0),
        ],
        Message::Vote { .. } | Message::Order { .. } => &[(Place, 0), (Place, 0), (Digest, 0)],
        Message::Body { .. } => &[(Place, 0), (Digest, 0)],
        Message::Phase(_) | Message::Advance(Proof::Qc(_)) => &[(Place, 0), (Digest, 0), (Signers, 0)],
        Message::NewView { .. } | Message::Complain { .. } => &[(Place, 0), (Place, 1), (Signers, 0)],
        Message::Advance(Proof::Tc(_)) => &[(Place, 0)],
        Message::Status(_) => &[(Place, 0), (Place, 1), (Place, 2)],
        Message::Attest { .. } => &[(Place, 0), (Place, 1), (Digest, 0)],
        Message::Advance(Proof::Commit(_)) | Message::Fetch(_) | Message::Blocks(_) | Message::Forward(_) => {
            &[]
        }
    };
    list.iter().map(|(kind, index)| lever(*kind, *index)).collect()
}

fn number(value: &mut u64, how: Pull) {
    *value = how.apply(*value, &[]);
}

fn digest(value: &mut Hash) {
    value.0[0] ^= 1;
}

fn certificate(qc: &mut Qc, lever: Lever, how: Pull) {
    match lever.kind {
        LeverKind::Digest => digest(&mut qc.digest),
        LeverKind::Signers => {
            let mut votes: Vec<_> = qc.votes.signed().collect();
            votes.pop();
            *qc = Qc::assemble(qc.epoch, (qc.kind, qc.view, qc.digest), votes);
        }
        _ => number(&mut qc.view.0, how),
    }
}

fn pull(message: &mut Message, lever: Lever, how: Pull) {
    match message {
        Message::Propose { header, .. } => match (lever.kind, lever.index) {
            (LeverKind::Place, 0) => number(&mut header.view.0, how),
            (LeverKind::Place, 1) => number(&mut header.height, how),
            (LeverKind::Place, 2) => number(&mut header.time.0, how),
            (LeverKind::Place, 3) => certificate(&mut header.justify, lever, how),
            (LeverKind::Place, _) => header.count = header.count.wrapping_add(1),
            (LeverKind::Digest, _) => digest(&mut header.root),
            (LeverKind::Parent, _) => digest(&mut header.parent),
            (LeverKind::Signers, _) => certificate(&mut header.justify, lever, how),
            _ => header.proposer ^= 1,
        },
        Message::Vote { view, digest: of, .. } | Message::Order { view, digest: of, .. } => {
            match lever.kind {
                LeverKind::Digest => digest(of),
                _ => number(&mut view.0, how),
            }
        }
        Message::Body { view, root, .. } => match lever.kind {
            LeverKind::Digest => digest(root),
            _ => number(&mut view.0, how),
        },
        Message::Phase(qc) | Message::Advance(Proof::Qc(qc)) => certificate(qc, lever, how),
        Message::NewView { view, high } | Message::Complain { view, high, .. } => {
            if (lever.kind, lever.index) == (LeverKind::Place, 0) {
                number(&mut view.0, how);
            } else {
                certificate(high, lever, how);
            }
        }
        Message::Advance(Proof::Tc(tc)) => number(&mut tc.view.0, how),
        Message::Status(status) => match lever.index {
            0 => number(&mut status.height, how),
            1 => number(&mut status.view.0, how),
            _ => number(&mut status.stable.0, how),
        },
        Message::Attest { state, .. } => match (lever.kind, lever.index) {
            (LeverKind::Digest, _) => digest(&mut state.root),
            (_, 0) => state.position = Position(how.apply(state.position.0, &[])),
            _ => state.view = View(how.apply(state.view.0, &[])),
        },
        Message::Advance(Proof::Commit(_)) | Message::Fetch(_) | Message::Blocks(_) | Message::Forward(_) => {
        }
    }
}

/// Signs what the message claims its sender said.
fn resign(message: &mut Message, sign: impl Fn(Statement) -> Signature) {
    match message {
        Message::Propose { header, signature } => {
            *signature = sign(Statement::Proposal { view: header.view, digest: header.digest() });
        }
        Message::Vote { kind, view, digest, signature } => {
            *signature = sign(Statement::vote(*kind, *view, *digest));
        }
        Message::Order { view, digest, signature } => {
            *signature = sign(Statement::Order { view: *view, digest: *digest });
        }
        Message::Complain { view, high, signature } => {
            *signature = sign(Statement::Complain { view: *view, high: high.view });
        }
        Message::Attest { state, signature } => *signature = sign(Statement::Checkpoint(*state)),
        Message::Body { .. }
        | Message::Phase(_)
        | Message::NewView { .. }
        | Message::Advance(_)
        | Message::Status(_)
        | Message::Fetch(_)
        | Message::Blocks(_)
        | Message::Forward(_) => {}
    }
}

impl Mutator for Open {
    fn levers(&self, body: &Bytes) -> Vec<Lever> {
        opened(body).map_or_else(Vec::new, |message| levers(&message))
    }

    fn pull(&self, body: &Bytes, lever: Lever, how: Pull, keys: Option<&Keys>) -> Option<Bytes> {
        let mut message = opened(body)?;
        pull(&mut message, lever, how);
        if let Some(keys) = keys {
            let scope = Scope { cluster: self.secrets.cluster, epoch: Epoch(0) };
            // The signer's number is not part of what is signed.
            resign(&mut message, |statement| keys.sign(scope, NodeId(0), statement).into_inner().signature);
        }
        Some(sealed(&message))
    }
}
