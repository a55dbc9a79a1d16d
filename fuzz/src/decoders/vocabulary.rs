//! What all protocols share: identities, sets, certificates, positions, registers.

use synod_crypto::{Certificate, Hash, PublicKey, Scope, Signature};
use synod_hotstuff::Attested;
use synod_machine::Wall;
use synod_machine::broadcast::{Checkpoint, Position, Ticket};
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_quorum::{Epoch, NodeSet};

use super::wires;

wires! {
    "crypto-hash" hash Hash;
    "crypto-signature" signature Signature;
    "crypto-scope" scope Scope;
    "crypto-certificate" certificate Certificate<Attested>;
    "quorum-epoch" epoch Epoch;
    "quorum-key" key PublicKey;
    "quorum-node-set" node_set NodeSet;
    "machine-wall" wall Wall;
    "machine-position" position Position;
    "machine-ticket" ticket Ticket;
    "machine-checkpoint" checkpoint Checkpoint;
    "machine-register-op" register_op RegisterOp;
    "machine-register-reply" register_reply RegisterReply;
}
