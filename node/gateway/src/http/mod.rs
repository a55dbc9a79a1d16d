//! The HTTP/JSON listener: the routes of [`synod_config::ROUTES`] over a [`synod_host::Backend`].
//!
//! *Bytes in JSON.* Keys and values are bytes, JSON has text. Bytes that are UTF-8 stand as text under their name,
//! such as `value`; other bytes stand in base64 (RFC 4648, padded) under that name with `_base64`. Requests may
//! use either name, never both. In paths and queries bytes are percent-encoded; `+` is itself. Numbers of 64 bits
//! are decimal strings.
//!
//! *Keys.* `GET /v1/kv/{key}` answers `{key, value, version}`; an absent key has value null and version `"0"`.
//! `PUT` takes `{value}`. `If-Match: "VERSION"` makes a write conditional, `"0"` on absence, `*` on presence.
//! `GET /v1/kv?prefix=&after=&limit=` answers `{keys: [{key}]}` in byte order; the last key is the next `after`, and
//! an empty page is the end. `POST /v1/txn` takes `{compare: [{key, version}], writes: [{op, key, value}]}` with op
//! `put` or `delete`, and answers `{results}`, one per write.
//!
//! *Reads* are linearizable; `?read=ordered` orders them, `?read=local` takes one member's word, and the answer
//! says so: `Synod-Trust: local`. `stale` and `proof` need checkpoint proofs and are refused with SYN-3003.
//!
//! *Request ids.* A write with `Synod-Request-Id` is executed at most once in the life of this process: the same
//! id with the same operation has the same answer, with another operation SYN-3007. Temporary refusals do not
//! bind an id. The last 4,096 ids are kept.
//!
//! *Access.* The listener is plain, so it binds on loopback only. With a token, every route needs it. Without one it takes requests for an
//! address or `localhost` only, so that no web page can reach it through a name of its own; `POST` must say
//! `application/json`, which a page cannot send unasked. No CORS headers are ever sent.
//!
//! *Bounds.* A head arrives within 5 s and 16 KiB, a body within 10 s and `limits.request_max`; bodies and replies
//! draw on [`crate::Budget`].

mod ask;
mod ids;
mod info;
mod kv;
mod octets;
mod pay;
mod request;
mod server;
mod txn;

pub(crate) use kv::{value, value_object};
pub(crate) use octets::from_percent as percent;
pub use pay::{Hooked, Webhook};
pub use server::{HttpServer, HttpSettings};
pub(crate) use txn::transaction;
