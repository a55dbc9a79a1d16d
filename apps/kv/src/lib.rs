//! A key-value store with Redis commands, deterministic and total.
//!
//! *What it gives.* [`Kv`], an application for the executor: strings, lists, sets, hashes and sorted sets under
//! keys that may expire, transactions guarded by versions, ranges over keys. Equal operations in equal order
//! give equal replies, byte for byte, and an equal root. A bad operation yields an error reply and changes
//! nothing.
//!
//! *Operations and replies.* An operation is one command, or one transaction with the versions it depends on
//! ([`operation`]); it is encoded from borrowed arguments and executed without copying them. Replies have one
//! canonical form ([`Reply`]) that a gateway turns into RESP2 or RESP3. Error texts are Redis 7.0's behind a
//! Synod code and are part of the result. [`COMMANDS`] tells names, arities, keys, and which commands are reads.
//!
//! *Determinism.* The only clock is the agreed time of the block: what has expired goes when a block starts, in
//! (deadline, key) order, and a key is gone once time reaches its deadline. SPOP takes its choice from the block's draw
//! and the key. Sets, fields and ranges go in byte order. Scores are doubles in a total order, without NaN and
//! minus zero; the one float operation is the IEEE addition of `ZADD INCR`.
//!
//! *Versions.* Every change numbers the entry it changes from one counter that is part of the state, so a
//! version names one moment of one key. An absent key has version 0, whatever it was before: a key created and
//! removed again while it was watched as absent does not abort the transaction.
//!
//! *Scanning.* A cursor of SCAN must be a number, and 64 bits cannot hold a key. The cursor is the first 48 bits
//! of the hash of the next key, and SCAN goes in that order: no state per cursor, no cursor that expires, the
//! guarantee of Redis kept at any replica, and a number that a double holds exactly. Keys within one page are in
//! byte order. Programs that can hold a key as cursor use [`operation::write_range`], in byte order with the last
//! key as cursor.
//!
//! *Root and chunks.* The root is the Merkle root over the canonical chunks, so that a state can be fetched
//! chunk by chunk against it, and it is incremental: entries live in a tree by key hash, 256-ary at the top,
//! whose leaves halve beyond 64 KiB and are the chunks themselves; only leaves that changed are hashed again.
//! A tree of fixed 256-ary depth would give chunks of some hundred bytes or of some megabytes; halving keeps
//! them between 32 and 64 KiB in the mean, and depends on the contents alone. Chunk 0 holds time, counters and
//! sums.
//!
//! *Bounds.* Keys 64 KiB, values and elements 512 KiB, an entry 64 MiB, 1,024 arguments or commands, an
//! operation 767 KiB, a reply 2 MiB, the whole store [`Config::bytes_max`] by its own account (`App::bytes`);
//! each is refused before anything is changed or reserved.
//!
//! ```
//! use synod_kv::{Config, Kv, Verb, operation};
//! use synod_service::App;
//! let kv = Kv::new(Config::default());
//! let mut question = Vec::new();
//! operation::write_command(Verb::Get, [&b"nobody"[..]].into_iter(), &mut question);
//! assert_eq!(kv.query(&question).as_deref(), Some(&b"_\r\n"[..]));
//! ```

mod app;
mod commands;
mod denied;
mod glob;
mod limits;
pub mod number;
pub mod operation;
mod ranked;
mod reply;
mod score;
mod snapshot;
mod store;
mod tree;
mod value;
mod verbs;

pub use app::{Config, Kv};
pub use commands::{Access, COMMANDS, Command, Keys, Verb};
pub use denied::Denied;
pub use limits::{
    ARGUMENTS_MAX, CHUNK_BYTES, COMMANDS_MAX, ENTRY_BYTES_MAX, KEY_BYTES_MAX, OPERATION_BYTES_MAX,
    REPLY_BYTES_MAX, SCAN_MAX, VALUE_BYTES_MAX, WATCHED_MAX,
};
pub use reply::{DEPTH_MAX, Reply};
pub use score::Score;
