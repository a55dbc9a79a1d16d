//! The signatures of a client, and its checks of what f + 1 servers say.

use synod_crypto::bls::BlsCertificate;
use synod_crypto::{Hash, Keys, PublicKey, Signature, Verified};
use synod_machine::{Cost, Job as Work};
use synod_quorum::NodeId;

use crate::card::Card;
use crate::certificate::{DeliveryCertificate, HeightCertificate};
use crate::certified::certified;
use crate::config::Cluster;
use crate::message::{Delivery, Signed, StateAnswer};
use crate::statement::{
    BlsKeyBytes, BlsShareBytes, BlsSignatureBytes, Delivered, Height, Possession, Root, SignUp, State,
    Submission,
};

/// What a client has done elsewhere.
#[derive(Clone, Debug)]
pub enum Task {
    /// Signs its message for a straggler's place (t_i).
    Submit(Submission),
    /// Signs a root (s_i): for this broker.
    Root(NodeId, Hash),
    /// Checks a height that this broker showed.
    Height(NodeId, Hash, HeightCertificate),
    /// Checks a delivery that this broker showed.
    Delivery(NodeId, Box<Delivery>, Delivered),
    /// Checks where f + 1 servers say that it stands.
    State(NodeId, Box<StateAnswer>, State),
    /// Makes its card.
    Card,
    /// Checks the id that this broker showed.
    SignUp(NodeId, Box<Signed>, Delivered),
}

/// A task and the cluster it is about.
#[derive(Clone, Debug)]
pub struct Job {
    /// The cluster.
    pub cluster: Cluster,
    /// What to do.
    pub task: Task,
}

/// Where a client stands, and a height that comes along.
pub(super) type Standing = (Verified<BlsCertificate<State>>, Verified<BlsCertificate<Height>>);

/// The answer.
#[derive(Clone, Debug)]
pub enum Done {
    /// The signature of a submission.
    Submitted(Submission, Signature),
    /// The share of a root; none without a key for multi-signatures.
    Rooted(NodeId, Hash, Option<Box<BlsShareBytes>>),
    /// A height that was proven.
    Height(NodeId, Hash, Option<Verified<BlsCertificate<Height>>>),
    /// A delivery that was proven, and its proof as it came.
    Delivery(NodeId, Box<Delivery>, Option<Verified<BlsCertificate<Delivered>>>),
    /// A state that was proven, and whether its height was too.
    State(NodeId, Box<StateAnswer>, Option<Standing>),
    /// The card; none without a key for multi-signatures.
    Card(Option<Box<Card>>),
    /// An id that was proven.
    SignUp(NodeId, Box<Signed>, Option<Verified<BlsCertificate<Delivered>>>),
}

impl Job {
    fn card(&self, keys: &Keys) -> Option<Box<Card>> {
        let scope = self.cluster.card_scope();
        let bls = BlsKeyBytes(keys.bls_public()?.to_bytes());
        let ed: PublicKey = keys.public();
        let pop = BlsSignatureBytes(keys.possess(&scope, &Possession { bls, ed })?);
        let signature = keys.sign(scope, NodeId::GUESTS, SignUp { bls, ed, pop }).signature;
        Card::new(bls, ed, pop, signature).ok().map(Box::new)
    }

    fn state(&self, answer: &StateAnswer, said: State, keys: &Keys) -> Option<Standing> {
        let state = certified(said, &answer.aggregate, &self.cluster, keys).ok()?;
        let HeightCertificate { statement, aggregate } = &answer.height;
        let height = certified(statement.clone(), aggregate, &self.cluster, keys).ok()?;
        Some((state, height))
    }
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        let scope = self.cluster.scope();
        match &self.task {
            Task::Submit(submission) => {
                // A client is no node of the cluster, so its claims name nobody.
                let signed = keys.sign(scope, NodeId::GUESTS, submission.clone());
                Done::Submitted(submission.clone(), signed.signature)
            }
            Task::Root(broker, commit) => {
                let share = keys.sign_bls(&scope, &Root { root_commit: *commit });
                let share = share.map(|share| Box::new(BlsShareBytes(share.to_share())));
                Done::Rooted(*broker, *commit, share)
            }
            Task::Height(broker, commit, HeightCertificate { statement, aggregate }) => {
                let height = certified(statement.clone(), aggregate, &self.cluster, keys).ok();
                Done::Height(*broker, *commit, height)
            }
            Task::Delivery(broker, delivery, said) => {
                let proven = certified(said.clone(), &delivery.aggregate, &self.cluster, keys).ok();
                Done::Delivery(*broker, delivery.clone(), proven)
            }
            Task::State(broker, answer, said) => {
                let proven = self.state(answer, said.clone(), keys);
                Done::State(*broker, answer.clone(), proven)
            }
            Task::Card => Done::Card(self.card(keys)),
            Task::SignUp(broker, signed, said) => {
                let proven = certified(said.clone(), &signed.aggregate, &self.cluster, keys).ok();
                Done::SignUp(*broker, signed.clone(), proven)
            }
        }
    }

    fn cost(&self) -> Cost {
        match &self.task {
            Task::Submit(_) => Cost { sign: 1, ..Cost::default() },
            Task::Root(..) => Cost { hash_to_curve: 1, ..Cost::default() },
            Task::Card => Cost { sign: 1, hash_to_curve: 1, ..Cost::default() },
            Task::State(..) => Cost { pairing: 4, hash_to_curve: 2, subgroup: 2, ..Cost::default() },
            Task::Height(..) | Task::Delivery(..) | Task::SignUp(..) => {
                Cost { pairing: 2, hash_to_curve: 1, subgroup: 1, ..Cost::default() }
            }
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match &self.task {
            Task::Submit(_) | Task::Card => None,
            Task::Root(broker, ..)
            | Task::Height(broker, ..)
            | Task::Delivery(broker, ..)
            | Task::State(broker, ..)
            | Task::SignUp(broker, ..) => Some(*broker),
        }
    }
}

/// The certificate that a proven delivery is.
pub(super) fn delivered(proven: &BlsCertificate<Delivered>, delivery: &Delivery) -> DeliveryCertificate {
    DeliveryCertificate { statement: proven.statement.clone(), aggregate: delivery.aggregate.clone() }
}
