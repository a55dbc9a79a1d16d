//! What probes are told, say, keep and compute.

use std::sync::Arc;

use synod_crypto::Keys;
use synod_machine::{Job, Message, Queue, Record, Span};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Malformed, Reader, Wire, Writer, wire};

use crate::JobGate;

/// How a frame fails to decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// It does not.
    #[default]
    None,
    /// A byte follows the message.
    Trailing,
    /// The message belongs to another queue than the one it came in.
    Misqueued,
    /// The message ends too early.
    Cut,
}

/// What probes say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The queue it travels in.
    pub queue: u8,
    /// Its number.
    pub tag: u64,
    /// Who it says it is from.
    pub claims: u32,
    /// Ballast.
    pub body: Blob<65_536>,
    /// What is wrong with its encoding; not itself encoded.
    pub flaw: Flaw,
}

impl Wire for Word {
    fn write(&self, out: &mut Writer) {
        let wrong = u8::from(self.flaw == Flaw::Misqueued);
        (self.queue + wrong).write(out);
        if self.flaw == Flaw::Cut {
            return;
        }
        self.tag.write(out);
        self.claims.write(out);
        self.body.write(out);
        if self.flaw == Flaw::Trailing {
            out.byte(0);
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self {
            queue: Wire::read(input)?,
            tag: Wire::read(input)?,
            claims: Wire::read(input)?,
            body: Wire::read(input)?,
            flaw: Flaw::None,
        })
    }

    fn size_hint(&self) -> usize {
        24 + self.body.len()
    }
}

impl Message for Word {
    fn queue(&self) -> Queue {
        Queue(self.queue)
    }
}

wire! {
    /// What probes keep.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Kept(pub u64);
}

impl Record for Kept {}

/// Answers its number.
pub struct Work {
    /// The number.
    pub number: u64,
    /// What it waits in front of.
    pub gate: Arc<JobGate>,
}

impl Job for Work {
    type Done = u64;

    fn run(self, _: &Keys) -> u64 {
        self.gate.pass();
        self.number
    }
}

/// One thing a probe is told to do.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Say a word to these.
    Send(NodeSet, u8, u64),
    /// Say a word with this many bytes of ballast.
    Heavy(NodeSet, u8, u64, usize),
    /// Say a word in another's name.
    Pretend(NodeSet, u32, u64),
    /// Send a frame that does not decode.
    Spoil(NodeId, Flaw),
    /// Keep a number.
    Persist(u64),
    /// Arm a timer.
    Arm(u64, Span),
    /// Disarm it.
    Disarm(u64),
    /// Start a job.
    Compute(u64),
    /// Output a number.
    Say(u64),
    /// Note a number.
    Note(u64),
    /// Suspect a peer.
    Suspect(NodeId),
    /// Output a draw of the random stream.
    Draw,
    /// Have the node's processor stop for a while, behind this turn.
    Pause(Span),
}
