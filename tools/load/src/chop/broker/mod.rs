//! A broker of generated batches, as a peer of real servers: it speaks the stream messages of a broker over TLS.
//!
//! *What is real.* Every batch is uploaded to all servers, witnessed by f + 1, ordered, delivered and certified by f + 1 equal
//! words; who is silent is asked again, and others instead of it, as a broker does. Signatures in the batches are genuine.
//! *What is not.* There are no clients: messages are drawn, and the multi-signature of a batch is one signature by the sum of its
//! members' keys. As in the paper no certificate is verified. Results made with it say so.
//!
//! *Accounts.* A member is in one batch at a time ([`Cooldown`]): a batch whose members are not all free waits, and
//! [`Books::cooldown_ok`] says whether one ever did. So batches may overtake each other without any message coming too late.
//!
//! *Threads.* [`LoadBroker`] is a machine on a node of its own; a thread makes batches and keeps the books.
//!
//! *Bounds.* As many batches as the window are on their way; a pool holds each body twice.
//!
//! Chop Chop, section 6.2.

mod bare;
mod books;
mod cooldown;
mod drive;
mod flight;
mod machine;
mod node;
mod operations;
mod pool;
mod source;
#[cfg(test)]
mod tests;

pub use bare::{Bare, Ids};
pub use books::{Books, SAMPLE};
pub use cooldown::Cooldown;
pub use drive::{Driver, DriverSetup, Pace};
pub use machine::{Config, Input, LoadBroker, Lost, Output, Timer};
pub use node::{BrokerSetup, Carried, LoadNode, Told};
pub use operations::Operations;
pub use source::{Ready, Source, SourcePlan};
