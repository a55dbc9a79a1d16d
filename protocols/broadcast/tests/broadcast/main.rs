//! The broadcasts, by what they promise.

mod bracha;
mod signed;
mod world;

use synod_broadcast::Lot;
use synod_broadcast::bracha::{self as plain, Vote};
use synod_broadcast::signed::{
    Ack, Acked, Certificate, Context, Except, Message, Record, Row, Said, TwoPayloads,
};

/// As in Bracha's broadcast.
type PlainMessage = plain::Message;
/// As in Bracha's broadcast.
type PlainRecord = plain::Record;

synod_wire::conformance!(
    Lot,
    Vote,
    PlainMessage,
    PlainRecord,
    Ack,
    Acked,
    Certificate,
    Context,
    Except,
    Message,
    Record,
    Row,
    Said,
    TwoPayloads,
);
