//! Handing descriptors to another process (docs/papers/ubft.md; uBFT, section 7).
//!
//! *What it gives.* A connection whose other side runs under the user that was agreed on, as the kernel knows it
//! (`SO_PEERCRED`), and messages of 24 bytes with the one descriptor that their kind has. What else comes is refused
//! with its reason, and descriptors that came with it are closed.
//!
//! | bytes | hold |
//! |---|---|
//! | 0 | version, 1 |
//! | 1 | kind |
//! | 2, 3 | queue |
//! | 4 to 7 | node |
//! | 8 to 11 | epoch |
//! | 12 to 15 | words of the memory |
//! | 16 to 23 | boot number |
//!
//! All little endian. *Bounds.* One message at a time; a peer that says nothing is given up after [`WAIT_MAX`].

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::error::Error;

/// The version of the messages.
pub const VERSION: u8 = 1;
/// How long a peer may keep this side waiting for a message or for room to send one.
pub const WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of a message.
const BYTES: usize = 24;
/// Callers that wait to be let in.
const BACKLOG: i32 = 64;

/// What is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The registers of `node` in `epoch`, to itself, for writing.
    Own,
    /// The registers of `node` in `epoch`, for reading.
    Region,
    /// The ring of `queue` from `node`, for reading.
    Ring,
    /// The status page of `node`, for reading.
    Status,
    /// The cord of the doorbell of `node`.
    Cord,
    /// Nothing: the registers that came as [`Kind::Own`] are mapped.
    Mapped,
    /// Nothing: `node` in its incarnation `boot` calls or answers.
    Hello,
    /// The page of a link from `node`, for reading.
    Page,
    /// Nothing: all was given; `words` says how many rings.
    Done,
    /// Nothing: the registers of `node` in `epoch` are asked for.
    Want,
    /// Nothing: `epoch` is the oldest that is served.
    Retired,
    /// Nothing: what was asked for is not there yet, or never.
    Refused,
}

impl Kind {
    const ALL: [(u8, Self); 12] = [
        (1, Self::Own),
        (2, Self::Region),
        (3, Self::Ring),
        (4, Self::Status),
        (5, Self::Cord),
        (6, Self::Mapped),
        (7, Self::Hello),
        (8, Self::Page),
        (9, Self::Done),
        (10, Self::Want),
        (11, Self::Retired),
        (12, Self::Refused),
    ];

    fn code(self) -> u8 {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or(0, |(code, _)| *code)
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind)
    }

    const fn descriptors(self) -> usize {
        match self {
            Self::Own | Self::Region | Self::Ring | Self::Status | Self::Cord | Self::Page => 1,
            Self::Mapped | Self::Hello | Self::Done | Self::Want | Self::Retired | Self::Refused => 0,
        }
    }
}

/// What a message says of its descriptor. Fields that mean nothing for its kind are zero by custom, and not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// What is handed over.
    pub kind: Kind,
    /// Whose it is.
    pub node: u32,
    /// The machine that hears a ring, in the high byte, and its queue.
    pub queue: u16,
    /// The epoch of a region.
    pub epoch: u32,
    /// How many words the memory has.
    pub words: u32,
    /// The boot number of the memory node, or the incarnation of the replica.
    pub boot: u64,
}

impl Label {
    fn bytes(&self) -> [u8; BYTES] {
        let parts: [&[u8]; 6] = [
            &[VERSION, self.kind.code()],
            &self.queue.to_le_bytes(),
            &self.node.to_le_bytes(),
            &self.epoch.to_le_bytes(),
            &self.words.to_le_bytes(),
            &self.boot.to_le_bytes(),
        ];
        let mut bytes = [0; BYTES];
        for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    fn of(bytes: [u8; BYTES]) -> Result<Self, Error> {
        let [version, kind, q0, q1, n0, n1, n2, n3, e0, e1, e2, e3, w0, w1, w2, w3, boot @ ..] = bytes;
        if version != VERSION {
            return Err(Error::Version { wanted: VERSION, found: version });
        }
        Ok(Self {
            kind: Kind::of(kind).ok_or(Error::Malformed)?,
            queue: u16::from_le_bytes([q0, q1]),
            node: u32::from_le_bytes([n0, n1, n2, n3]),
            epoch: u32::from_le_bytes([e0, e1, e2, e3]),
            words: u32::from_le_bytes([w0, w1, w2, w3]),
            boot: u64::from_le_bytes(boot),
        })
    }
}

/// Where others call. The socket file is for whoever may enter its folder; who calls is known by [`Door::accept`].
#[derive(Debug)]
pub struct Door(OwnedFd);

impl Door {
    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    /// What the system said.
    pub fn bind(path: &Path) -> Result<Self, Error> {
        let address = SocketAddrUnix::new(path).map_err(Error::of("bind"))?;
        let socket = socket()?;
        rustix::net::bind(&socket, &address).map_err(Error::of("bind"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(Error::of("listen"))?;
        Ok(Self(socket))
    }

    /// Waits for the next caller and says under which user it runs. Who that user is, and whether it may call, is for
    /// the one who asks.
    ///
    /// # Errors
    /// What the system said.
    pub fn accept(&self) -> Result<(Hand, u32), Error> {
        let socket = rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC).map_err(Error::of("accept"))?;
        let uid = uid_of(&socket)?;
        Ok((Hand::over(socket, uid)?, uid))
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One side of a connection.
#[derive(Debug)]
pub struct Hand(OwnedFd);

impl Hand {
    /// Calls the door at `path`, whose owner must run under `uid`.
    ///
    /// # Errors
    /// [`Error::Peer`] when somebody else is behind it, or what the system said.
    pub fn connect(path: &Path, uid: u32) -> Result<Self, Error> {
        let address = SocketAddrUnix::new(path).map_err(Error::of("connect"))?;
        let socket = socket()?;
        rustix::net::connect(&socket, &address).map_err(Error::of("connect"))?;
        Self::over(socket, uid)
    }

    /// Takes a connected Unix socket of packets in order, whose other side must run under `uid`.
    ///
    /// # Errors
    /// [`Error::Peer`] when it does not, or what the system said.
    pub fn over(socket: OwnedFd, uid: u32) -> Result<Self, Error> {
        let found = uid_of(&socket)?;
        if found != uid {
            return Err(Error::Peer { wanted: uid, found });
        }
        for side in [Timeout::Recv, Timeout::Send] {
            sockopt::set_socket_timeout(&socket, side, Some(WAIT_MAX)).map_err(Error::of("SO_RCVTIMEO"))?;
        }
        Ok(Self(socket))
    }

    /// Waits for messages as long as the peer lives; one that is sent must still be taken within [`WAIT_MAX`].
    ///
    /// # Errors
    /// What the system said.
    pub fn patient(&self) -> Result<(), Error> {
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, None).map_err(Error::of("SO_RCVTIMEO"))
    }

    /// The socket, to be held for as long as this side lives.
    #[must_use]
    pub fn into_life(self) -> OwnedFd {
        self.0
    }

    /// Gives a descriptor away; this side keeps its own.
    ///
    /// # Errors
    /// [`Error::Descriptors`] when `label` names a kind that has none, or what the system said.
    pub fn give(&self, label: &Label, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        self.put(label, &[descriptor])
    }

    /// Says something that has no descriptor.
    ///
    /// # Errors
    /// [`Error::Descriptors`] when `label` names a kind that has one, or what the system said.
    pub fn say(&self, label: &Label) -> Result<(), Error> {
        self.put(label, &[])
    }

    fn put(&self, label: &Label, descriptors: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let (wanted, found) = (label.kind.descriptors(), descriptors.len());
        if wanted != found {
            return Err(Error::Descriptors { wanted, found });
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if found > 0 && !rights.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Error::Descriptors { wanted, found });
        }
        let bytes = label.bytes();
        let sent = rustix::net::sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut rights, SendFlags::NOSIGNAL)
            .map_err(Error::of("sendmsg"))?;
        if sent == BYTES { Ok(()) } else { Err(Error::Length { wanted: BYTES, found: sent }) }
    }

    /// Waits for the next message. A descriptor came if and only if its kind has one. What it is of is for
    /// [`see`](crate::see) and [`Memfd::adopt`](crate::Memfd::adopt) to check.
    ///
    /// # Errors
    /// Says what about the message is wrong; all descriptors that came with it are closed.
    pub fn take(&self) -> Result<(Label, Option<OwnedFd>), Error> {
        // Room for one byte and one descriptor too many, so that they are seen; the system drops what lies beyond.
        let mut bytes = [0; BYTES.saturating_add(1)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let came = rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut rights, flags)
            .map_err(Error::of("recvmsg"))?;
        let mut descriptors = Vec::with_capacity(2);
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                descriptors.extend(some);
            }
        }
        if came.bytes == 0 && descriptors.is_empty() {
            return Err(Error::Closed);
        }
        let whole = bytes.split_first_chunk().filter(|_| came.bytes == BYTES);
        let (first, _) = whole.ok_or(Error::Length { wanted: BYTES, found: came.bytes })?;
        let label = Label::of(*first)?;
        let (wanted, found) = (label.kind.descriptors(), descriptors.len());
        if wanted != found || came.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Error::Descriptors { wanted, found });
        }
        Ok((label, descriptors.pop()))
    }
}

fn socket() -> Result<OwnedFd, Error> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(Error::of("socket"))
}

fn uid_of(socket: &impl AsFd) -> Result<u32, Error> {
    let peer = sockopt::socket_peercred(socket).map_err(Error::of("SO_PEERCRED"))?;
    Ok(peer.uid.as_raw())
}

/// The user that this process runs under, as peers see it.
#[must_use]
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A connected pair of sockets as [`Hand::over`] takes them, for a child process or a test.
///
/// # Errors
/// What the system said.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Error> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(Error::of("socketpair"))
}
