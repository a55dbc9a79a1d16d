//! What members sign, say and keep to change their view.

use std::sync::Arc;

use synod_crypto::{Certificate, Hash, Signature, Statement};
use synod_machine::broadcast::Context;
use synod_machine::{Message as Spoken, Queue, Record as Kept};
use synod_wire::{Blob, Bytes, List, wire};

use super::roll::{OPERATORS_MAX, Roll};
use super::view::{CHANGES_MAX, Change, Sequence, View, ViewId};

/// Longest state of a member, in bytes: states of all members of a view are kept in one log.
pub const STATE_MAX: usize = 6 << 20;

wire! {
    /// What is signed to change a view.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Sworn {
        /// Step 2: these views are the signer's list.
        0 = Proposed {
            /// Of which view it is a member.
            context: Context,
            /// See [`Sequence::digest`].
            views: Hash,
        },
        /// Step 4: these views were accepted, and are the signer's list.
        1 = Converged {
            /// See there.
            context: Context,
            /// See there.
            views: Hash,
        },
        /// Step 6: the signer stopped in this view and keeps this.
        2 = Stated {
            /// See there.
            context: Context,
            /// Of the state.
            state: Hash,
        },
        /// An operator wants this change, in whichever view it is made.
        3 = Endorsed {
            /// The shard, and the first view.
            context: Context,
            /// The change.
            change: Change,
        },
    }

    /// One operator's signature on a change.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Operator {
        /// Its place in the genesis.
        pub operator: u8,
        /// Over [`Sworn::Endorsed`].
        pub signature: Signature,
    }

    /// A change that a quorum of operators wants.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Endorsement {
        /// The change.
        pub change: Change,
        /// Who signed, lowest first.
        pub signed: List<Operator, OPERATORS_MAX>,
    }

    /// A list of views that a quorum of a view's members signed: proposed, so it is accepted; converged, so its least is installed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Agreed {
        /// Whose members.
        pub base: ViewId,
        /// The views above it.
        pub views: Sequence,
        /// Their signatures.
        pub certificate: Certificate<Sworn>,
    }

    /// A member's list of views.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Proposal {
        /// In which view.
        pub view: ViewId,
        /// The last one counts: each is numbered.
        pub number: u64,
        /// The views above it.
        pub views: Sequence,
        /// Over [`Sworn::Proposed`] or [`Sworn::Converged`].
        pub signature: Signature,
    }

    /// What a member kept when it stopped in a view.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SignedState {
        /// The view that is over.
        pub view: ViewId,
        /// Who stopped.
        pub member: u8,
        /// What it keeps: of use to those who know how to merge it.
        pub state: Blob<STATE_MAX>,
        /// Over [`Sworn::Stated`].
        pub signature: Signature,
    }

    /// Spoken between members, and by whoever wants to be one.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// Step 1: make this change.
        0 = Reconfig {
            /// In the newest view that the sender knows.
            view: ViewId,
            /// What, and who wants it.
            endorsement: Endorsement,
        },
        /// The change is recorded.
        1 = ReconfigConfirm {
            /// By a member of this view.
            view: ViewId,
            /// Which.
            change: Change,
        },
        /// Step 2.
        2 = Propose {
            /// The list.
            proposal: Proposal,
            /// Of all that it adds.
            endorsements: List<Endorsement, CHANGES_MAX>,
        },
        /// Step 3: this was accepted.
        3 = Accepted {
            /// The list and a quorum's signatures.
            agreed: Agreed,
            /// Of all that it adds.
            endorsements: List<Endorsement, CHANGES_MAX>,
        },
        /// Step 4.
        4 = Converged(Proposal),
        /// Step 5.
        5 = Install {
            /// The list and a quorum's signatures.
            agreed: Agreed,
            /// Of all that its rest adds.
            endorsements: List<Endorsement, CHANGES_MAX>,
        },
        /// Step 6: the sender's, or another's that it has.
        6 = State(SignedState),
        /// The sender has the receiver's state of this view for good, or needs it no longer.
        7 = Have {
            /// The view that is over.
            view: ViewId,
        },
        /// What followed this view?
        8 = AskChain {
            /// The newest that the sender knows.
            view: ViewId,
        },
        /// How views followed each other since the genesis.
        9 = Chain {
            /// One [`Message::Install`] after the other.
            installs: List<Agreed, CHANGES_MAX>,
            /// Of all that the last one's rest adds.
            endorsements: List<Endorsement, CHANGES_MAX>,
        },
        /// States of members of this view, please: the sender has too few.
        10 = AskStates {
            /// The view that is over.
            view: ViewId,
        },
    }

    /// A promise.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Record {
        /// Before it is confirmed or part of a list.
        0 = Endorsed(Endorsement),
        /// Before [`Message::Propose`].
        1 = Proposed {
            /// See [`Proposal`].
            view: ViewId,
            /// See there.
            number: u64,
            /// See there.
            views: Sequence,
        },
        /// Before a list that rests on it is proposed.
        2 = Accepted(Agreed),
        /// Before [`Message::Converged`].
        3 = Converged {
            /// See [`Proposal`].
            view: ViewId,
            /// See there.
            number: u64,
            /// See there.
            views: Sequence,
        },
        /// A view is known above the current one: the whole chain to it.
        4 = Reached(List<Agreed, CHANGES_MAX>),
        /// Before the user is told to stop.
        5 = Stopped(ViewId),
        /// Before [`Message::State`].
        6 = Stated {
            /// The view that is over.
            view: ViewId,
            /// What is kept.
            state: Blob<STATE_MAX>,
        },
        /// Before [`Message::Have`].
        7 = Held(SignedState),
        /// Before any message of the new view.
        8 = Installed {
            /// The chain to it.
            chain: List<Agreed, CHANGES_MAX>,
            /// Of what was merged.
            state: Hash,
        },
    }
}

impl Statement for Sworn {
    const PROTOCOL: u8 = 3;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        match self {
            Self::Proposed { .. } => 48,
            Self::Converged { .. } => 49,
            Self::Stated { .. } => 50,
            Self::Endorsed { .. } => 51,
        }
    }
}

impl Endorsement {
    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.signed.len() * size_of::<Operator>()) as u64
    }
}

impl Agreed {
    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.views.bytes() + self.certificate.bytes()
    }
}

impl SignedState {
    /// What stands for a state in statements.
    #[must_use]
    pub fn digest(state: &[u8]) -> Hash {
        let mut hasher = synod_crypto::Hasher::new("synod astro state");
        hasher.add(state);
        hasher.finish()
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.state.len()) as u64
    }
}

impl Spoken for Message {
    fn queue(&self) -> Queue {
        match self {
            Self::Propose { .. } | Self::Accepted { .. } | Self::Converged(_) | Self::Install { .. } => {
                Queue::PROPOSAL
            }
            Self::State(_) | Self::Chain { .. } => Queue::BULK,
            Self::Reconfig { .. }
            | Self::ReconfigConfirm { .. }
            | Self::Have { .. }
            | Self::AskChain { .. }
            | Self::AskStates { .. } => Queue::CONTROL,
        }
    }
}

impl Kept for Record {}

/// A timer's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// All that is not superseded is said again.
    Resend,
}

/// What the local user asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Has the newest view's members make a change.
    Request(Endorsement),
    /// Answers [`Output::Stop`]: nothing more is promised in this view, and this is kept of it.
    Stopped {
        /// Which.
        view: ViewId,
        /// What is kept; at most [`STATE_MAX`] bytes.
        state: Bytes,
    },
    /// Answers [`Output::Merge`]: what was kept is merged for good.
    Merged {
        /// The new view.
        view: ViewId,
        /// Of what came of it.
        state: Hash,
    },
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too few operators endorse it.
    Endorsement,
    /// It is made already.
    Made,
    /// Another one is under way.
    Busy,
    /// The state is longer than [`STATE_MAX`]: this member cannot tell what it keeps, so others go on without its word.
    StateTooLong,
}

/// What the local user is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A quorum of the current view's members recorded the change.
    Confirmed(Change),
    /// Nothing more may be promised in this view. Said again after a restart until it is answered by [`Input::Stopped`].
    Stop(ViewId),
    /// What a quorum of the older view's members kept is to be merged, this node's own among it if it was one. Said again
    /// after a restart until it is answered by [`Input::Merged`].
    Merge {
        /// The new view.
        view: Arc<Roll>,
        /// The older one.
        from: Arc<Roll>,
        /// All that led to the new view, the first one and itself included.
        rolls: Vec<Arc<Roll>>,
        /// What its members kept, each checked.
        states: Vec<SignedState>,
    },
    /// This is the current view; nothing is promised in it before [`Output::Resume`].
    Installed(Arc<Roll>),
    /// The user goes on in the current view. Said again after a restart.
    Resume(Arc<Roll>),
    /// This node is no member of the new view, and a quorum of that one's members have what it kept: its key is to be erased.
    Left(ViewId),
    /// A request or an answer was not taken.
    Refused {
        /// What was asked, if it was a change.
        change: Option<Change>,
        /// Why.
        why: Refusal,
    },
    /// Lists that a quorum signed are not ordered by inclusion: more members lie than may. What came first stays.
    Contradiction {
        /// The view that is left out.
        view: View,
        /// The certificate that is left out.
        evidence: Bytes,
    },
}
