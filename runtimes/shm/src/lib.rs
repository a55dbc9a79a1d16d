//! The shared-memory runtime: what replicas on one host share, and the loop that polls it (uBFT, sections 6 and 7).
//!
//! *What it gives.* A [`Station`] hosts the machines of a node at a [`Poller`]: what they say goes straight into rings,
//! what they hear comes straight out of them. [`introduce`] links stations of one process, a [`Porter`] those of
//! several. [`Regions`] is the memory node of a host, [`Tenant`] a member at its door, and [`Registers`] does operations
//! on its registers in place. A journal ([`keep`]) and a thread for jobs ([`Crypto`]) are optional.
//!
//! *Below.* [`Memfd`] is memory of a fixed size that one process writes and others see; [`Written`] and [`Shown`] are its
//! words as the ring, the pipe and the registers of `synod_tail` want them. [`Hand`] gives its descriptors to processes
//! of other users. [`Doorbell`] and [`Button`] let a receiver sleep and miss nothing.
//!
//! *Placements.* [`Placement::Cooperative`] is several stations at one poller, linked by [`introduce`];
//! [`Placement::Isolated`] a process and a user each, linked by porters; [`Placement::Dedicated`] the same with a core
//! each, where spinning is allowed by [`poll::rest_here`] alone.
//!
//! *Model.* Processes run under users of their own and cannot trace each other; the kernel is trusted, its user ids are
//! identities. A faulty process may write anything, at any time, into memory that it may write, hand out any
//! descriptor, and ring, send or stay silent as it likes. It cannot write another's memory, and cannot make a reader fail
//! by shrinking what it reads: size, owner, mode and seals are checked before anything is mapped. What it writes reaches
//! this process as words that are copied once and judged as a copy. Several memory nodes on one host tolerate no more
//! faults than one.
//!
//! *Orders.* Loads and stores are relaxed and fences order them; nothing is loaded with acquire, which pages that are
//! mapped for reading are not promised to allow.
//!
//! *Deviation.* A doorbell is a socket for each sender, where the specification names an eventfd for all: see
//! [`Doorbell`].
//!
//! *Bounds.* A mapping and no descriptor for each ring and region once it is mapped; two descriptors for each sender's
//! cord and one for each link. Memory is taken when it is made. A frame of up to 1 KiB costs no allocation between the
//! sender's machine and the receiver's (`tests/allocations.rs`).
//!
//! ```
//! use synod_shm::{Agreed, offer, see};
//! use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};
//! let ring = Ring::new(RingSpec { depth: 16, slot_bytes: 64 }).expect("a ring");
//! let (written, descriptor) = offer("example", ring.words())?;
//! // Another process gets the descriptor, knows the size by its configuration and the user by the connection.
//! let uid = rustix::process::geteuid().as_raw();
//! let shown = see(descriptor, Agreed { words: ring.words(), uid })?;
//!
//! let (mut writer, mut reader) = (Writer::new(ring, written), Reader::new(ring, shown));
//! assert_eq!(writer.send(Header { queue: 0, epoch: 0 }, b"lock").map_err(|_| ()), Ok(1));
//! let mut buffer = [0; 48];
//! assert!(matches!(reader.poll(&mut buffer), Polled::Message(arrived) if arrived.payload(&buffer) == b"lock"));
//! # Ok::<(), synod_shm::Error>(())
//! ```

mod connector;
mod doorbell;
mod error;
pub mod flag;
mod frames;
pub mod hand;
mod jobs;
mod lanes;
pub mod line;
mod mailbox;
mod map;
mod memfd;
mod neighbours;
mod placement;
pub mod poll;
pub mod porter;
pub mod regions;
pub mod registers;
mod running;
mod station;

pub use connector::{Connector, Deliveries, Observer, Silent};
pub use doorbell::{Button, CORDS_MAX, Doorbell, Look, Ropes, TAKEN_MAX, Woken};
pub use error::Error;
pub use hand::{Door, Hand, Kind, Label};
pub use jobs::Crypto;
pub use lanes::{Fatal, Keeper, Lanes, keep};
pub use mailbox::{Busy, Handle, INPUTS_MAX};
pub use map::{Shown, Written};
pub use memfd::{Agreed, Memfd, offer, see};
pub use neighbours::introduce;
pub use placement::{Placement, Rest, TooFewCores, cores};
pub use poll::{Clock, Monotonic, Polled, Poller, Progress};
pub use porter::{Neighbour, Neighbourhood, Porter};
pub use regions::{Regions, RegionsConfig, RegionsStatus, Tenant};
pub use registers::{Registers, RegistersConfig};
pub use running::{Running, poller};
pub use station::{Builder, DRAIN_MAX, Hosting, Memory, Station};
