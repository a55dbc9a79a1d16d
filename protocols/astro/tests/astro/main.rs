//! Payments without consensus, by what they promise.

mod bank;
mod batches;
mod lies;
mod payments;

use synod_astro::{
    Auth, Authorized, Batch, Draft, EntryProof, Header, Line, Message, Receipt, Record, Settled,
};

synod_wire::conformance!(
    Auth, Authorized, Batch, Draft, EntryProof, Header, Line, Message, Receipt, Record, Settled,
);
