//! Work of a replica and of whoever changes its view, and what states hold.

use std::marker::PhantomData;
use std::sync::Arc;

use synod_crypto::{Keys, verify_evidence};
use synod_machine::broadcast::Transferable;
use synod_machine::{Cost, Job as Work};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits};

use crate::views::{self, Kept, PROOF_MAX, Roll, Tip, Transfer};

/// States whose tips are shown by the certificates of a broadcast.
#[derive(Clone, Copy, Debug)]
pub struct Carried<C>(PhantomData<C>);

impl<C: Transferable + Clone> Transfer for Carried<C> {
    fn is_state(of: &[Arc<Roll>], state: &Bytes, keys: &Keys) -> bool {
        let views: Vec<_> = of.iter().map(|roll| roll.broadcasts()).collect();
        let is_shown = |tip: &Tip| {
            let limits = Limits { frame_max: u32::try_from(PROOF_MAX).unwrap_or(u32::MAX) };
            let proof = tip.shown.certificate.as_ref().map(|proof| C::decode(proof.bytes().clone(), &limits));
            let Some(Ok(proof)) = proof else { return false };
            let is_it = (proof.lot(), proof.digest()) == (tip.lot, tip.shown.digest);
            let here = |view: &&Arc<_>| is_of(&proof, view);
            let view = views.iter().find(here).filter(|_| is_it);
            view.is_some_and(|view| verify_evidence(proof.clone(), keys, view.cluster, &view.roster).is_ok())
        };
        Kept::of(state).is_some_and(|kept| kept.certified().all(is_shown))
    }
}

fn is_of<C: Transferable>(proof: &C, view: &synod_machine::broadcast::View) -> bool {
    (proof.context(), proof.epoch()) == (view.context, view.roster.epoch())
}

/// Work of a member.
#[derive(Clone, Debug)]
pub enum Job<J> {
    /// Of the replica.
    In {
        /// In which view.
        view: u32,
        /// What.
        job: crate::Job<J>,
    },
    /// Of whoever changes the view.
    Views(views::Job),
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done<D> {
    /// To the replica.
    In {
        /// Of which view.
        view: u32,
        /// What.
        done: crate::Done<D>,
    },
    /// To whoever changes the view.
    Views(views::Done),
}

impl<J: Work> Work for Job<J> {
    type Done = Done<J::Done>;

    fn run(self, keys: &Keys) -> Self::Done {
        match self {
            Self::In { view, job } => Done::In { view, done: job.run(keys) },
            Self::Views(job) => Done::Views(job.run(keys)),
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::In { job, .. } => job.cost(),
            Self::Views(job) => job.cost(),
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::In { job, .. } => job.peer(),
            Self::Views(job) => job.peer(),
        }
    }
}
