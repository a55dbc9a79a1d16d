//! Signing, away from the machine's turn.

use synod_crypto::{Keys, Scope, Statement};
use synod_machine::{Cost, Job};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::frame::{Item, Said, UNSIGNED};
use crate::message::Attach;

/// Work of a client.
#[derive(Clone, Debug)]
pub enum ClientJob {
    /// Signs an item.
    Sign {
        /// Without its signature.
        item: Item,
        /// The cluster.
        scope: Scope,
    },
    /// Signs an attachment.
    Attach {
        /// Without its signature.
        attach: Attach,
        /// The cluster.
        scope: Scope,
    },
}

/// The answer of a [`ClientJob`].
#[derive(Clone, Debug)]
pub enum ClientDone {
    /// The item as it is sent.
    Signed {
        /// The session; 0 for an opening.
        session: u64,
        /// The frame's first sequence; the nonce of an opening.
        first: u64,
        /// The item.
        payload: Bytes,
    },
    /// The attachment as it is sent.
    Attach(Attach),
}

impl Job for ClientJob {
    type Done = ClientDone;

    fn run(self, keys: &Keys) -> ClientDone {
        match self {
            Self::Sign { item, scope } => {
                let said = item.said(&item.payload());
                let signature = sign(keys, scope, said);
                let (session, first) = name(&item);
                ClientDone::Signed { session, first, payload: item.signed(signature).payload() }
            }
            Self::Attach { attach, scope } => {
                let Attach { session, member, counter, .. } = attach;
                let signature = sign(keys, scope, Said::Channel { session, member, counter });
                ClientDone::Attach(Attach { signature, ..attach })
            }
        }
    }

    fn cost(&self) -> Cost {
        let hashed = match self {
            Self::Sign { item: Item::Frame(frame), .. } => {
                frame.commands.iter().map(|one| one.len() as u64).sum()
            }
            _ => 0,
        };
        Cost { sign: 1, hashed, ..Cost::default() }
    }
}

fn sign(keys: &Keys, scope: Scope, said: impl Statement) -> synod_crypto::Signature {
    keys.sign(scope, NodeId::GUESTS, said).signature
}

/// The name of an item between client and node.
pub(super) fn name(item: &Item) -> (u64, u64) {
    match item {
        Item::Open(opening) => (0, opening.nonce),
        Item::Frame(frame) => (frame.session, frame.first),
    }
}

/// The item where channels are trusted.
pub(super) fn unsigned(item: Item) -> ClientDone {
    let (session, first) = name(&item);
    ClientDone::Signed { session, first, payload: item.signed(UNSIGNED).payload() }
}

#[cfg(test)]
mod tests {
    use super::ClientJob;
    use crate::frame::{ClientFrame, Item, UNSIGNED};
    use crate::message::Attach;
    use synod_crypto::{Hash, Scope};
    use synod_machine::{Cost, Job as _};
    use synod_quorum::Epoch;
    use synod_wire::{Blob, Bytes, List};

    #[test]
    fn every_signature_is_paid_for_and_so_are_the_bytes_that_are_hashed() {
        let scope = Scope { cluster: Hash::ZERO, epoch: Epoch(0) };
        let command = |size: usize| Blob::try_from(Bytes::from(vec![7; size])).expect("short");
        let commands = List::try_from(vec![command(100), command(20)]).expect("short");
        let frame = ClientFrame { session: 1, first: 1, acked: 1, full: 0, commands, signature: UNSIGNED };
        let attach = Attach { session: 1, member: 0, counter: 1, signature: UNSIGNED };
        let sign = |item| ClientJob::Sign { item, scope }.cost();
        assert_eq!(sign(Item::Frame(frame)), Cost { sign: 1, hashed: 120, ..Cost::default() });
        assert_eq!(ClientJob::Attach { attach, scope }.cost(), Cost { sign: 1, ..Cost::default() });
    }
}
