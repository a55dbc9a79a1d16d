//! Canonical encoding with limits: the only crate that names the codec library.
//!
//! *What it gives.* [`Wire`]: one encoding per value and one value per accepted encoding, so
//! `encode(decode(b)) = b` for every accepted `b`. Integers that count are minimal varints, booleans are
//! strict, sets are sorted, nothing may trail. Bounds travel in types ([`Blob`], [`List`]) and in the
//! [`Limits`] of the frame, and are checked before anything is allocated.
//!
//! *Why a facade.* The codec library can change its version or be replaced without touching a protocol
//! (`docs/adr/0005-codec-facade.md`).
//!
//! *Bounds.* Decoding allocates at most the input's length times the ratio of a value's size in memory to its
//! shortest encoding; payload bytes are shared with the input, never copied.
//!
//! ```
//! use synod_wire::{Limits, Wire, wire};
//! wire! {
//!     /// A point.
//!     #[derive(Debug, PartialEq)]
//!     pub struct Point {
//!         /// Abscissa.
//!         pub x: u32,
//!         /// Ordinate.
//!         pub y: u64,
//!     }
//! }
//! let point = Point { x: 7, y: 300 };
//! let bytes = point.encode();
//! assert_eq!(Point::decode(bytes, &Limits::default()), Ok(point));
//! ```

pub mod conformance;
mod draw;
mod error;
mod macros;
mod primitives;
mod reader;
mod sequences;
mod writer;

pub use bytes::Bytes;
pub use draw::{Draw, Drawn};
pub use error::{Malformed, Why};
pub use reader::{Limits, Reader};
pub use sequences::{Blob, List, TooLong};
pub use writer::{Wire, Writer};
