//! Messages between brokers and stores, and among stores.

use synod_crypto::{Hash, Signature};
use synod_machine::Queue;
use synod_wire::{Blob, Draw, Drawn, List, Malformed, Reader, Why, Wire, Writer, wire};

use super::{HELD_MAX, PIECE_MAX};
use crate::batch::{Header, Refusal, Sealed};
use crate::fixed::{Fixed, fixed};
use crate::signup::{self, SealedSignUp, SignUpHeader};

/// A batch of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Messages(Sealed),
    SignUp(SealedSignUp),
}

/// A batch on its way to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    ask: bool,
    content: Content,
}

impl Upload {
    /// An upload of messages; `ask` asks for a witness at once.
    #[must_use]
    pub const fn messages(ask: bool, batch: Sealed) -> Self {
        Self { ask, content: Content::Messages(batch) }
    }

    /// An upload of cards; `ask` asks for a witness at once.
    #[must_use]
    pub const fn sign_up(ask: bool, batch: SealedSignUp) -> Self {
        Self { ask, content: Content::SignUp(batch) }
    }

    /// Whether a witness is asked for.
    #[must_use]
    pub const fn asks(&self) -> bool {
        self.ask
    }

    /// The batch, if it holds messages.
    #[must_use]
    pub const fn as_messages(&self) -> Option<&Sealed> {
        match &self.content {
            Content::Messages(batch) => Some(batch),
            Content::SignUp(_) => None,
        }
    }

    /// The batch, if it holds cards.
    #[must_use]
    pub const fn as_sign_up(&self) -> Option<&SealedSignUp> {
        match &self.content {
            Content::SignUp(batch) => Some(batch),
            Content::Messages(_) => None,
        }
    }
}

impl Wire for Upload {
    fn write(&self, out: &mut Writer) {
        Fixed::put(&self.ask, out);
        match &self.content {
            Content::Messages(batch) => batch.write(out),
            Content::SignUp(batch) => batch.write(out),
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let ask = Fixed::take(input)?;
        let refusal = input.refuse(Why::Short);
        let content = match input.array()? {
            signup::MAGIC => {
                let header = SignUpHeader::take_after(signup::MAGIC, input)?;
                let body = input.take(usize::try_from(header.body_len()).map_err(|_| refusal)?)?;
                Content::SignUp(SealedSignUp { header, body })
            }
            magic => {
                let header = Header::take_after(magic, input)?;
                let body = input.take(header.body_len as usize)?;
                Content::Messages(Sealed { header, body })
            }
        };
        Ok(Self { ask, content })
    }

    fn size_hint(&self) -> usize {
        1 + match &self.content {
            Content::Messages(batch) => batch.size_hint(),
            Content::SignUp(batch) => batch.size_hint(),
        }
    }
}

impl Draw for Upload {
    fn draw(from: &mut Drawn) -> Self {
        let ask = Draw::draw(from);
        match from.below(4) {
            0 => Self::sign_up(ask, Draw::draw(from)),
            _ => Self::messages(ask, Draw::draw(from)),
        }
    }
}

fixed! {
    /// A server's witness of a batch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Shard {
        /// The batch.
        pub digest: Hash,
        /// The signature over WITNESS.
        pub signature: Signature,
    }

    /// A batch that is not taken or not witnessed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Refused {
        /// The batch.
        pub digest: Hash,
        /// Why.
        pub why: Refusal,
    }

    /// What a broker may still send, and where the server stands.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Credit {
        /// Bytes of unordered batches.
        pub bytes: u64,
        /// Verification work.
        pub work: u64,
        /// Batches delivered, genesis included.
        pub height: u64,
        /// Length of the directory.
        pub directory: u32,
    }

    /// A batch that a store has pinned.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HeldBatch {
        /// The batch.
        pub digest: Hash,
        /// Height from which it may not be accepted any more.
        pub expiry: u64,
        /// Its entries.
        pub count: u32,
        /// Bytes of its body.
        pub body_len: u32,
    }

    /// Asks for a part of a batch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Pull {
        /// The batch.
        pub digest: Hash,
        /// First byte of header and body.
        pub offset: u32,
        /// Bytes, at most `PIECE_MAX`.
        pub length: u32,
    }
}

wire! {
    /// A part of a batch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Piece {
        /// The batch.
        pub digest: Hash,
        /// First byte of header and body.
        pub offset: u32,
        /// The bytes.
        pub bytes: Blob<PIECE_MAX>,
    }

    /// What stores say and are told.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum StoreMessage {
        /// B->Store: here is a batch.
        1 = Batch(Upload),
        /// B->Store: witness this batch.
        2 = Ask(Hash),
        /// Store->B: witnessed.
        3 = Shard(Shard),
        /// Store->B: not witnessed.
        4 = Refuse(Refused),
        /// Store->B: what you may still send.
        5 = Credit(Credit),
        /// B->Store: what of mine do you hold?
        6 = HeldAsk,
        /// Store->B: these.
        7 = Held(List<HeldBatch, HELD_MAX>),
        /// Store->Store: send me this part.
        8 = Pull(Pull),
        /// Store->Store: here it is.
        9 = Piece(Piece),
        /// Store->Store: it is gone.
        10 = Gone {
            /// The batch.
            digest: Hash,
            /// Height of the sender's last stable checkpoint.
            stable: u64,
        },
    }
}

impl StoreMessage {
    /// The outgoing queue: bodies and pieces are bulk.
    #[must_use]
    pub const fn queue(&self) -> Queue {
        match self {
            Self::Batch(_) | Self::Piece(_) => Queue::BULK,
            Self::Ask(_)
            | Self::Shard(_)
            | Self::Refuse(_)
            | Self::Credit(_)
            | Self::HeldAsk
            | Self::Held(_)
            | Self::Pull(_)
            | Self::Gone { .. } => Queue::CONTROL,
        }
    }
}
