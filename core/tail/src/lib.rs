//! Bounded collections, and the three structures that replicas share through memory.
//!
//! *What it gives.* Every collection of a machine has a maximum and says what happens at it. [`Fifo`] and
//! [`TailMap`] either refuse what comes or evict what is oldest or smallest, and their `push` and `insert` say which;
//! [`ByteFifo`] bounds bytes instead of elements; [`BitWindow`] remembers which of the next W numbers were seen.
//!
//! [`ring`] carries messages from one writer to one reader and forgets the oldest, [`pipe`] carries frames and forgets
//! none, [`register`] holds one owner's values for many readers (uBFT, section 6). All three are pure algorithms over [`Words`]: a runtime maps the memory, tests explore them word by word.
//!
//! *Bounds.* All memory is proportional to the maximum given at construction. Operations cost O(1), or O(log n) for
//! the map; advancing a window costs O(W / 64) at most.
//!
//! ```
//! use synod_tail::{BitWindow, Fifo, Pushed, Seen};
//! let mut tail = Fifo::evicting(2);
//! assert_eq!(tail.push('a'), Pushed::Kept);
//! assert_eq!(tail.push('b'), Pushed::Kept);
//! assert_eq!(tail.push('c'), Pushed::Evicted('a'));
//!
//! let mut window = BitWindow::new(1, 64);
//! assert_eq!((window.set(7), window.set(7), window.set(65)), (Seen::New, Seen::Before, Seen::Beyond));
//! ```

mod bytes;
mod fifo;
mod map;
pub mod pipe;
pub mod register;
pub mod ring;
mod window;
mod words;

pub use bytes::ByteFifo;
pub use fifo::{Fifo, Pushed};
pub use map::{Inserted, TailMap};
pub use window::{BitWindow, Seen, WINDOW_MAX, WINDOW_MIN};
pub use words::{Atomics, Fence, Words};
