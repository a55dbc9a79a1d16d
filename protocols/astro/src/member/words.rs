//! What members say, keep and tell while views change.

use std::sync::Arc;

use synod_machine::{Message as Spoken, Queue, Record as Kept};
use synod_wire::{Bytes, Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::views::{self, Change, Endorsement, Entered, Roll, View, ViewId};

/// What members say to each other; `A` is the broadcast's vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<A> {
    /// Of the replica.
    In {
        /// In the view of this number: those in which anybody speaks are one sequence.
        view: u32,
        /// What.
        message: crate::Message<A>,
    },
    /// To change the view.
    Views(views::Message),
}

/// What a member keeps; `A` is what the broadcast keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<A> {
    /// Of the replica, in the view that was entered last.
    In(crate::Record<A>),
    /// Of whoever changes the view.
    Views(views::Record),
    /// Before anything is promised in a view: the replica goes on in it, from what it had.
    Entered(Box<Entered>),
    /// Of a snapshot: records of the replica in this view follow.
    Began(Box<Entered>),
}

impl<A: Wire> Wire for Message<A> {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::In { view, message } => {
                out.byte(0);
                view.write(out);
                message.write(out);
            }
            Self::Views(message) => {
                out.byte(1);
                message.write(out);
            }
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::UnknownTag(0));
        match u8::read(input)? {
            0 => Ok(Self::In { view: u32::read(input)?, message: crate::Message::read(input)? }),
            1 => Ok(Self::Views(views::Message::read(input)?)),
            tag => Err(Malformed { why: Why::UnknownTag(tag), ..refusal }),
        }
    }

    fn size_hint(&self) -> usize {
        6 + match self {
            Self::In { message, .. } => message.size_hint(),
            Self::Views(message) => message.size_hint(),
        }
    }
}

impl<A: Draw> Draw for Message<A> {
    fn draw(from: &mut Drawn) -> Self {
        if from.below(2) == 0 {
            Self::In { view: u32::draw(from), message: crate::Message::draw(from) }
        } else {
            Self::Views(views::Message::draw(from))
        }
    }
}

impl<A: Wire> Wire for Record<A> {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::In(record) => {
                out.byte(0);
                record.write(out);
            }
            Self::Views(record) => {
                out.byte(1);
                record.write(out);
            }
            Self::Entered(entered) => {
                out.byte(2);
                entered.write(out);
            }
            Self::Began(entered) => {
                out.byte(3);
                entered.write(out);
            }
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::UnknownTag(0));
        match u8::read(input)? {
            0 => Ok(Self::In(crate::Record::read(input)?)),
            1 => Ok(Self::Views(views::Record::read(input)?)),
            2 => Ok(Self::Entered(Box::new(Entered::read(input)?))),
            3 => Ok(Self::Began(Box::new(Entered::read(input)?))),
            tag => Err(Malformed { why: Why::UnknownTag(tag), ..refusal }),
        }
    }

    fn size_hint(&self) -> usize {
        1 + match self {
            Self::In(record) => record.size_hint(),
            Self::Views(record) => record.size_hint(),
            Self::Entered(entered) | Self::Began(entered) => entered.size_hint(),
        }
    }
}

impl<A: Draw> Draw for Record<A> {
    fn draw(from: &mut Drawn) -> Self {
        match from.below(4) {
            0 => Self::In(crate::Record::draw(from)),
            1 => Self::Views(views::Record::draw(from)),
            2 => Self::Entered(Box::new(Entered::draw(from))),
            _ => Self::Began(Box::new(Entered::draw(from))),
        }
    }
}

impl<A: Spoken> Spoken for Message<A> {
    fn queue(&self) -> Queue {
        match self {
            Self::In { message, .. } => message.queue(),
            Self::Views(message) => message.queue(),
        }
    }
}

impl<A: Kept> Kept for Record<A> {}

/// A timer's name; `T` is that of the broadcast's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer<T> {
    /// Of the replica.
    In {
        /// In which view.
        view: u32,
        /// Which.
        timer: crate::Timer<T>,
    },
    /// Of whoever changes the view.
    Views(views::Timer),
    /// A newer view may be asked for once more.
    Ask,
}

/// What the local user asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Of the replica.
    Pay(crate::Input),
    /// Has the members of the newest view make a change.
    Change(Endorsement),
}

/// What the local user is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// By the replica. Entering a view is as a restart: what was told since the user last kept anything is told again.
    Pay(crate::Output),
    /// A quorum of the current view's members recorded the change.
    Confirmed(Change),
    /// Nothing is promised from here on until [`Self::Resumed`].
    Stopped(ViewId),
    /// Payments go on in this view.
    Resumed(Arc<Roll>),
    /// This node is no member any more, and its key is to be erased.
    Left(ViewId),
    /// This node has no way into a view: lanes are longer than members keep them.
    TooFar(ViewId),
    /// A change was not taken, or this node's state found no place.
    Refused {
        /// What was asked, if it was a change.
        change: Option<Change>,
        /// Why.
        why: views::Refusal,
    },
    /// Lists that a quorum signed are not ordered by inclusion: more members lie than may.
    Contradiction {
        /// The view that is left out.
        view: View,
        /// The certificate that is left out.
        evidence: Bytes,
    },
}
