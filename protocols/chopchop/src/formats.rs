//! The formats of every statement, batch, certificate and message, watched by hashes in `conformance.toml`.

use crate::batch::{Header, Sealed};
use crate::card::Card;
use crate::certificate::{DeliveryCertificate, HeightCertificate, Legitimacy};
use crate::client::{ClientRecord, Flying, Next};
use crate::content::AnyHeader;
use crate::directory::Member;
use crate::item::Item;
use crate::message::{
    Cards, ClientMessage, Credit, HeldBatch, Piece, Pull, Refused, ServerMessage, Shard, SignedHeight,
    SignedState, StateAsk, StoreMessage, TransferMessage, Upload, Verdict,
};
use crate::receipt::Receipt;
use crate::server::Mark;
use crate::signup::{SealedSignUp, SignUpHeader};
use crate::statement::{Delivered, Height, LinkClaim, Possession, Root, SignUp, State, Submission, Witness};
use crate::store::{Ordered, Pinned, StoreRecord};

/// A number stands in for the ordering layer's own words.
type Message = crate::vocabulary::Message<Height>;
/// And for its records.
type ServerRecord = crate::server::ServerRecord<Height>;

synod_wire::conformance!(
    AnyHeader,
    Card,
    Cards,
    ClientMessage,
    ClientRecord,
    Credit,
    Delivered,
    DeliveryCertificate,
    Flying,
    Header,
    Height,
    HeightCertificate,
    HeldBatch,
    Item,
    Legitimacy,
    LinkClaim,
    Mark,
    Member,
    Message,
    Next,
    Ordered,
    Piece,
    Pinned,
    Possession,
    Pull,
    Receipt,
    Refused,
    Root,
    Sealed,
    SealedSignUp,
    ServerMessage,
    ServerRecord,
    Shard,
    SignUp,
    SignUpHeader,
    SignedHeight,
    SignedState,
    State,
    StateAsk,
    StoreMessage,
    StoreRecord,
    Submission,
    TransferMessage,
    Upload,
    Verdict,
    Witness,
);
