//! What clients put into the agreed order: openings of sessions and frames of commands.
//!
//! One frame is one item of the ordering layer and is never split or framed anew: a retry sends the same bytes. The
//! signature ends the item, so the signed digest covers the bytes before it and nothing is encoded twice. Commands
//! are byte ranges of the received item.

use synod_crypto::{Hash, Hasher, PublicKey, Signature, Statement};
use synod_wire::{Blob, Bytes, Limits, List, Malformed, Reader, Why, Wire, Writer, wire};

/// Most commands of one frame.
pub const COMMANDS_MAX: usize = 1_024;
/// Most bytes of all commands of one frame together.
pub const COMMANDS_BYTES_MAX: usize = 768 << 10;
/// Longest item, in bytes.
pub const ITEM_MAX: usize = 800 << 10;
/// The version byte in front of every item.
pub const ITEM_VERSION: u8 = 1;
/// The protocol number of the service's statements.
pub const SERVICE_PROTOCOL: u8 = 7;

const SIGNATURE_BYTES: usize = 64;
/// The tag of [`Item::Frame`].
const FRAME_TAG: u8 = 1;

wire! {
    /// One payload of a client, as it is ordered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Item {
        /// Opens a session; its id is the position of the item.
        0 = Open(Opening),
        /// Commands of a session.
        1 = Frame(ClientFrame),
    }

    /// Asks for a session. An opening whose key and nonce equal those of an open session names that session.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Opening {
        /// Verifies the session's frames.
        pub key: PublicKey,
        /// Tells openings of one key apart.
        pub nonce: u64,
        /// By `key`, over [`Said::Open`]; zero where channels are trusted.
        pub signature: Signature,
    }

    /// Commands of one session with consecutive sequence numbers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClientFrame {
        /// The session.
        pub session: u64,
        /// The sequence number of the first command; numbers start at 1.
        pub first: u64,
        /// The client has, or no longer awaits, the results of all sequences below this one.
        pub acked: u64,
        /// The member that answers with full results.
        pub full: u8,
        /// The commands, at most [`COMMANDS_BYTES_MAX`] bytes together.
        pub commands: List<Blob<COMMANDS_BYTES_MAX>, COMMANDS_MAX>,
        /// By the session's key, over [`Said::Frame`]; zero where channels are trusted.
        pub signature: Signature,
    }

    /// What clients sign, in scope (cluster, epoch 0).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Said {
        /// Open a session; the digest of the opening.
        0 = Open(Hash),
        /// Execute these commands; the digest of the frame.
        1 = Frame(Hash),
        /// Replies of `session` go to this connection of `member`; a higher counter replaces a lower one, so that
        /// a copy of an old statement moves nothing.
        2 = Channel {
            /// The session.
            session: u64,
            /// The member that is told.
            member: u8,
            /// Rises with every such statement of the session.
            counter: u64,
        },
    }
}

impl Statement for Said {
    const PROTOCOL: u8 = SERVICE_PROTOCOL;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        match self {
            Self::Open(_) => 1,
            Self::Frame(_) => 2,
            Self::Channel { .. } => 3,
        }
    }
}

impl Item {
    /// Reads an item under its rules: right version, at least one command, commands within
    /// [`COMMANDS_BYTES_MAX`], sequences above 0 and below 2^63, a session that is not 0.
    ///
    /// # Errors
    /// [`Malformed`] with the rule that is broken. Every node refuses the same bytes.
    pub fn parse(payload: &Bytes) -> Result<Self, Malformed> {
        let limits = Limits { frame_max: 800 << 10 };
        match payload.first() {
            Some(&ITEM_VERSION) => {}
            Some(&version) => return Err(Malformed { at: 0, why: Why::UnknownVersion(version) }),
            None => return Err(Malformed { at: 0, why: Why::Short }),
        }
        let item = Self::decode(payload.slice(1..), &limits)?;
        match &item {
            Self::Frame(frame) if !frame.is_sound() => Err(Malformed { at: 1, why: Why::OutOfRange }),
            _ => Ok(item),
        }
    }

    /// The item's bytes, as they are sent and ordered.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        let mut out = Writer::with_capacity(1 + self.size_hint());
        out.byte(ITEM_VERSION);
        self.write(&mut out);
        out.freeze()
    }

    /// What the signature of the item with these bytes is over.
    #[must_use]
    pub fn said(&self, payload: &[u8]) -> Said {
        match self {
            Self::Open(_) => Said::Open(item_digest(payload)),
            Self::Frame(_) => Said::Frame(item_digest(payload)),
        }
    }

    /// The item's signature.
    #[must_use]
    pub const fn signature(&self) -> Signature {
        match self {
            Self::Open(opening) => opening.signature,
            Self::Frame(frame) => frame.signature,
        }
    }

    /// The same item under another signature.
    #[must_use]
    pub fn signed(mut self, by: Signature) -> Self {
        match &mut self {
            Self::Open(opening) => opening.signature = by,
            Self::Frame(frame) => frame.signature = by,
        }
        self
    }
}

impl ClientFrame {
    /// The sequence number behind the last command.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.commands.len() as u64)
    }

    fn is_sound(&self) -> bool {
        let bytes: usize = self.commands.iter().map(|command| command.len()).sum();
        let counted = !self.commands.is_empty() && bytes <= COMMANDS_BYTES_MAX;
        counted && self.session != 0 && self.first != 0 && self.end() <= 1 << 63
    }
}

/// The digest of an item: over all its bytes but the signature. One pass over the item, about 0.3 ns a byte.
#[must_use]
pub fn item_digest(payload: &[u8]) -> Hash {
    let unsigned = payload.len().saturating_sub(SIGNATURE_BYTES);
    Hasher::new("synod item").add(payload.get(..unsigned).unwrap_or_default()).finish()
}

/// The session that an ordered payload is of, by its first bytes; `None` for an opening and for what is no item. It
/// costs no more than reading a number, and says nothing about the rest.
#[must_use]
pub fn session_of(payload: &Bytes) -> Option<u64> {
    let limits = Limits { frame_max: 800 << 10 };
    let mut input = Reader::new(payload, &limits).ok()?;
    let is_frame = input.array().is_ok_and(|head| head == [ITEM_VERSION, FRAME_TAG]);
    input.varint().ok().filter(|_| is_frame)
}

/// The signature that stands where channels are trusted.
pub const UNSIGNED: Signature = Signature([0; SIGNATURE_BYTES]);
