//! A [`StateStore`](synod_service::StateStore) over redb: large application state on disk.
//!
//! *What it gives.* [`Store`] keeps an ordered key-value map in one file. A batch and the position that made it are
//! one transaction: after a crash the store is exactly at the position it names. [`Pace`] says how often a transaction
//! is synced; what was not synced is lost in whole batches from the end, and is executed again. A [`Reader`] reads beside it from
//! any thread and waits for no batch.
//!
//! *Why a library.* redb has two dependencies, a stable file format and copy-on-write pages, so a crash needs no
//! repair of ours.
//!
//! *Bounds.* Keys and values are as large as the application makes them; a scan returns at most what it is asked for.
//! The page cache has the size given at opening.
//!
//! ```
//! use synod_machine::broadcast::Position;
//! use synod_service::{Change, StateStore};
//! use synod_store::{Options, Store};
//! # let folder = std::env::temp_dir().join(format!("synod-store-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).expect("a temporary folder");
//! # let path = folder.join("state.redb");
//! let mut store = Store::open(&path, Options::default())?;
//! store.commit(Position(1), vec![Change::Put("key".into(), "value".into())]);
//! assert_eq!(store.get(b"key").as_deref(), Some(&b"value"[..]));
//! # drop(store);
//! # std::fs::remove_dir_all(folder).expect("the folder is ours");
//! # Ok::<(), synod_store::Error>(())
//! ```

mod error;
mod store;

pub use error::Error;
pub use store::{Fatal, Options, Pace, Reader, Store};
