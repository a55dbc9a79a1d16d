//! The formats of every statement, batch, certificate and message, watched by hashes in `conformance.toml`.

use crate::batch::{Header, Sealed};
use crate::card::Card;
use crate::certificate::{DeliveryCertificate, HeightCertificate, Legitimacy};
use crate::directory::Member;
use crate::item::Item;
use crate::message::{
    Cards, ClientMessage, Credit, HeldBatch, Piece, Pull, Refused, ServerMessage, Shard, SignedHeight,
    SignedState, StateAsk, StoreMessage, Upload, Verdict,
};
use crate::signup::{SealedSignUp, SignUpHeader};
use crate::statement::{Delivered, Height, LinkClaim, Possession, Root, SignUp, State, Submission, Witness};

synod_wire::conformance!(
    Card,
    Cards,
    ClientMessage,
    Credit,
    Delivered,
    DeliveryCertificate,
    Header,
    Height,
    HeightCertificate,
    HeldBatch,
    Item,
    Legitimacy,
    LinkClaim,
    Member,
    Piece,
    Possession,
    Pull,
    Refused,
    Root,
    Sealed,
    SealedSignUp,
    ServerMessage,
    Shard,
    SignUp,
    SignUpHeader,
    SignedHeight,
    SignedState,
    State,
    StateAsk,
    StoreMessage,
    Submission,
    Upload,
    Verdict,
    Witness,
);
