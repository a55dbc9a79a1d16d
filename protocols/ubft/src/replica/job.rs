//! Signatures that consensus makes and checks beside its handlers.

use std::sync::Arc;

use synod_crypto::{Claim, Claims, Keys, Scope, Signature, Verified};
use synod_machine::{Cost, Job as Work};
use synod_quorum::NodeId;

use super::words::{Summary, node};
use crate::body::{Body, CheckpointBy};
use crate::certificate::{Checkpoint, Judged, Summarized};
use crate::config::Config;
use crate::job;
use crate::statement::Statement;
use crate::stream::Checked;

/// Work of consensus.
#[derive(Clone, Debug)]
pub enum Task {
    /// Of one broadcaster.
    Ctb(u8, job::Job),
    /// Signs the own statement.
    Sign {
        /// Where it is good.
        scope: Scope,
        /// What.
        statement: Statement,
    },
    /// Checks a replica's share.
    Share(Claim<Statement>),
    /// Checks the certificates of message `k` of a stream.
    Body {
        /// Whose stream.
        about: u8,
        /// The number.
        k: u64,
        /// The message.
        body: Body,
        /// Signatures that were checked before.
        seen: Claims<Statement>,
        /// By which it is judged.
        config: Arc<Config>,
    },
    /// Checks a summary.
    Summary {
        /// Who sent it.
        from: NodeId,
        /// The summary.
        summary: Summary,
        /// By which it is judged.
        config: Arc<Config>,
    },
    /// Checks a checkpoint.
    Checkpoint {
        /// Who sent it.
        from: NodeId,
        /// The checkpoint.
        certificate: CheckpointBy,
        /// By which it is judged.
        config: Arc<Config>,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Finished {
    /// Of one broadcaster.
    Ctb(u8, job::Done),
    /// Signed.
    Signed(Verified<Claim<Statement>>),
    /// A share: good, or not its signer's.
    Share(Result<Verified<Claim<Statement>>, Claim<Statement>>),
    /// A message of a stream, or none where a certificate proves nothing.
    Body {
        /// Whose stream.
        about: u8,
        /// The number.
        k: u64,
        /// The message.
        checked: Option<Box<Checked>>,
        /// The signatures of its certificate.
        seen: Claims<Statement>,
    },
    /// A summary, or none where it proves nothing.
    Summary {
        /// Who sent it.
        from: NodeId,
        /// Of whose stream it is.
        about: u8,
        /// What f + 1 signed, and the state.
        good: Option<(Verified<Judged<Summarized>>, Summary)>,
    },
    /// A checkpoint, or none where it proves nothing.
    Checkpoint {
        /// Who sent it.
        from: NodeId,
        /// The checkpoint.
        good: Option<Verified<Judged<Checkpoint>>>,
    },
}

fn check_body(body: Body, seen: &mut Claims<Statement>, config: &Config, keys: &Keys) -> Option<Checked> {
    match body {
        Body::Prepare { view, slot, batch } => {
            let (digest, length) = batch.measure();
            Some(Checked::Prepare { view, slot, batch: Arc::new(batch), digest, length })
        }
        Body::Commit(certificate) => {
            let (certificate, all) = certificate.verify_beyond(seen, config, keys).ok()?;
            *seen = all;
            Some(Checked::Commit(certificate))
        }
        Body::Checkpoint(certificate) => {
            let (certificate, all) = certificate.verify_beyond(seen, config, keys).ok()?;
            *seen = all;
            Some(Checked::Checkpoint(certificate))
        }
        Body::SealView(view) => Some(Checked::SealView(view)),
        Body::NewView { view, left } => {
            let left: Result<Vec<_>, _> = left.into_iter().map(|left| left.verify(config, keys)).collect();
            left.ok().map(|left| Checked::NewView { view, left })
        }
        Body::Ref { .. } => None,
    }
}

/// How many signatures are none of those.
fn unseen(signed: &[(u8, Signature)], seen: &Claims<Statement>) -> usize {
    let is_seen = |signature: &Signature| seen.iter().any(|claim| claim.signature == *signature);
    signed.iter().filter(|(_, signature)| !is_seen(signature)).count()
}

/// Whether a summary's certificate is of the state beside it.
fn is_of_state(summary: &Summary) -> bool {
    let Summarized { k, state, .. } = summary.certificate.subject;
    state == summary.state.digest() && k.checked_add(1) == Some(summary.state.next_k)
}

impl Work for Task {
    type Done = Finished;

    fn run(self, keys: &Keys) -> Finished {
        match self {
            Self::Ctb(broadcaster, job) => Finished::Ctb(broadcaster, job.run(keys)),
            Self::Sign { scope, statement } => {
                Finished::Signed(keys.sign(scope, node(statement.signer()), statement))
            }
            Self::Share(claim) => Finished::Share(claim.verify(keys)),
            Self::Body { about, k, body, mut seen, config } => {
                let checked = check_body(body, &mut seen, &config, keys).map(Box::new);
                Finished::Body { about, k, checked, seen }
            }
            Self::Summary { from, summary, config } => {
                let about = summary.certificate.subject.about;
                let proven = is_of_state(&summary)
                    .then(|| summary.certificate.clone().verify(&config, keys).ok())
                    .flatten();
                Finished::Summary { from, about, good: proven.map(|proven| (proven, summary)) }
            }
            Self::Checkpoint { from, certificate, config } => {
                Finished::Checkpoint { from, good: certificate.verify(&config, keys).ok() }
            }
        }
    }

    fn cost(&self) -> Cost {
        let certificate = |signed: usize| Cost {
            batch_verify: u32::try_from(signed).unwrap_or(u32::MAX),
            ..Cost::default()
        };
        match self {
            Self::Ctb(_, job) => job.cost(),
            Self::Sign { .. } => Cost { sign: 1, ..Cost::default() },
            Self::Share(_) => Cost { verify: 1, ..Cost::default() },
            Self::Body { body, seen, .. } => match body {
                Body::Commit(commit) => certificate(unseen(&commit.signed, seen)),
                Body::Checkpoint(checkpoint) => certificate(unseen(&checkpoint.signed, seen)),
                Body::NewView { left, .. } => certificate(left.iter().map(|left| left.signed.len()).sum()),
                Body::Prepare { .. } | Body::SealView(_) | Body::Ref { .. } => Cost::default(),
            },
            Self::Summary { summary, .. } => certificate(summary.certificate.signed.len()),
            Self::Checkpoint { certificate: checkpoint, .. } => certificate(checkpoint.signed.len()),
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Ctb(_, job) => job.peer(),
            Self::Sign { .. } => None,
            Self::Share(claim) => Some(claim.signer),
            Self::Body { about, .. } => Some(node(*about)),
            Self::Summary { from, .. } | Self::Checkpoint { from, .. } => Some(*from),
        }
    }
}
