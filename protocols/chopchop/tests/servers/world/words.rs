//! What is said and written, in words: the lines of conversations.

use synod_chopchop::Domains;
use synod_chopchop::client::ClientRecord;
use synod_chopchop::content::AnyBatch;
use synod_chopchop::item::Item;
use synod_chopchop::message::{ClientMessage, ServerMessage, StoreMessage, Submit, TransferMessage, Upload};
use synod_chopchop::server::{Apply, ServerRecord};
use synod_chopchop::statement::{Delivered, Kind};
use synod_chopchop::store::StoreRecord;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::To;
use synod_wire::{Limits, Wire};

use super::{BROKER, N, Spoken, Written};
use crate::ideal::{Numbered, Say};

/// Servers are s0 to s3, brokers b0 and b1, clients c with their number.
pub(crate) fn name(id: u32) -> String {
    match id {
        0..N => format!("s{id}"),
        BROKER..1_000 => format!("b{}", id - BROKER),
        _ => format!("c{}", id - 1_000),
    }
}

pub(crate) fn names(to: To) -> String {
    match to {
        To::Node(node) => name(node.0),
        To::Set(set) => set.iter().map(|node| name(node.0)).collect::<Vec<_>>().join(","),
    }
}

fn short(bytes: &[u8]) -> String {
    bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn of(digest: &Hash) -> String {
    format!("batch {}", short(&digest.0))
}

/// What is said; nothing for credit, which is said all the time.
pub(crate) fn of_message(message: &Spoken, domains: &Domains) -> Option<String> {
    Some(match message {
        Message::Client(message) => of_client_message(message),
        Message::Store(StoreMessage::Credit(_)) => return None,
        Message::Store(message) => of_store_message(message, domains),
        Message::Server(message) => of_server_message(message),
        Message::Ordering(message) => of_order(message)?,
    })
}

fn of_client_message(message: &ClientMessage) -> String {
    match message {
        ClientMessage::Submit(Submit { id, k0, message, parity, legitimacy, .. }) => {
            let word = message.bytes().first().copied().unwrap_or(0);
            let proof = if legitimacy.is_some() { ", with a certificate" } else { "" };
            format!("SUBMIT client {id}: message {word}, k0 {k0}, parity {}{proof}", u8::from(*parity))
        }
        ClientMessage::Inclusion(shown) => {
            let closed = if shown.closed { ", closed" } else { "" };
            let proof = shown.height.as_ref().map(|proof| format!(", height {}", proof.statement.height));
            let (root, k, count) = (short(&shown.root.0), shown.k, shown.shape.count);
            format!("INCLUSION root {root}, k {k}, of {count}{closed}{}", proof.unwrap_or_default())
        }
        ClientMessage::MultiSig { id, root_commit, .. } => {
            format!("MULTISIG client {id} over {}", short(root_commit))
        }
        ClientMessage::Delivery(shown) => {
            let (height, count) = (shown.height, shown.exc_count);
            format!("DELIVERY {} at height {height}, {count} not delivered", of(&shown.digest))
        }
        ClientMessage::Ack { height } => format!("ACK height {height}"),
        ClientMessage::Nack { why, .. } => format!("NACK {why:?}"),
        ClientMessage::Query { id, .. } => format!("QUERY client {id}"),
        ClientMessage::State(state) => format!("STATE next k {}", state.next_k),
        ClientMessage::SignUp(_) => "SIGNUP a card".to_owned(),
        ClientMessage::Signed(signed) => format!("SIGNED client {} at height {}", signed.id, signed.height),
        ClientMessage::Challenge { .. } => "CHALLENGE".to_owned(),
        ClientMessage::Claim { id, .. } => format!("CLAIM client {id}"),
    }
}

fn of_upload(upload: &Upload, domains: &Domains) -> String {
    let batch = AnyBatch::of_upload(upload).expect("of either kind");
    let (header, (_, digest)) = (batch.header.clone(), batch.name_and_digest(domains));
    let what = match header.kind() {
        Kind::Messages => "messages",
        Kind::SignUp => "cards",
    };
    let straggling = upload.as_messages().map_or(0, |batch| batch.header.stragglers);
    let apart = if straggling > 0 { format!(", {straggling} straggling") } else { String::new() };
    let asks = if upload.asks() { ", asks for a shard" } else { "" };
    format!("BATCH {} of {} {what}{apart}{asks}", short(&digest.0), header.count())
}

fn of_store_message(message: &StoreMessage, domains: &Domains) -> String {
    match message {
        StoreMessage::Batch(upload) => of_upload(upload, domains),
        StoreMessage::Ask(digest) => format!("ASK {}", of(digest)),
        StoreMessage::Shard(shard) => format!("SHARD {}", of(&shard.digest)),
        StoreMessage::Refuse(refused) => format!("REFUSE {}: {:?}", of(&refused.digest), refused.why),
        StoreMessage::Credit(credit) => format!("CREDIT height {}", credit.height),
        StoreMessage::HeldAsk => "HELD_ASK".to_owned(),
        StoreMessage::Held(list) => format!("HELD {} batches", list.len()),
        StoreMessage::Pull(pull) => format!("PULL {} from byte {}", of(&pull.digest), pull.offset),
        StoreMessage::Piece(piece) => format!("PIECE {} from byte {}", of(&piece.digest), piece.offset),
        StoreMessage::Gone { digest, stable } => format!("GONE {}, certified up to {stable}", of(digest)),
    }
}

fn of_item(item: &Item) -> String {
    let by: Vec<String> = item.signers().set().iter().map(|id| name(id.0)).collect();
    format!("{} witnessed by {}", of(item.digest()), by.join(","))
}

fn of_verdict(said: &Delivered) -> String {
    format!("{} at height {}, {} not delivered", of(&said.digest), said.height, said.exc_count)
}

fn of_server_message(message: &ServerMessage) -> String {
    match message {
        ServerMessage::Order(item) => format!("ORDER {}", of_item(item)),
        ServerMessage::Delivered(verdict) => format!("DELIVERED {}", of_verdict(&verdict.statement)),
        ServerMessage::Certify(digest) => format!("CERTIFY {}", of(digest)),
        ServerMessage::HeightAsk(ask) => format!("HEIGHT_ASK {}", ask.height),
        ServerMessage::Height(signed) => format!("HEIGHT {}", signed.statement.height),
        ServerMessage::StateAsk(ask) => format!("STATE_ASK client {}", ask.id),
        ServerMessage::State(signed) => {
            format!("STATE client {}: next k {}", signed.statement.id, signed.statement.next_k)
        }
        ServerMessage::DirPull { from } => format!("DIR_PULL from client {from}"),
        ServerMessage::Cards(cards) => format!("CARDS {} of {}", cards.members.len(), cards.length),
        ServerMessage::Mark(mark) => format!("MARK height {}", mark.height),
        ServerMessage::Transfer(TransferMessage::Names(mark)) => format!("names of height {}", mark.height),
        ServerMessage::Transfer(_) => "about a state".to_owned(),
    }
}

/// What the ideal order says; nothing for its questions, which come all the time.
fn of_order(message: &Say) -> Option<String> {
    let item = |bytes: &synod_wire::Bytes| {
        Item::decode(bytes.clone(), &Limits::default()).map_or("no item".to_owned(), |item| of_item(&item))
    };
    match message {
        Say::Number(payload) => Some(format!("order: number {}", item(payload.bytes()))),
        Say::Numbered(Numbered { position, payload }) => {
            Some(format!("order: position {} is {}", position.0, item(payload.bytes())))
        }
        Say::From(_) | Say::Gone { .. } | Say::Stuck | Say::Root { .. } => None,
    }
}

pub(crate) fn of_store(written: &Written<StoreRecord>) -> Option<String> {
    match written {
        Written::Blob(_, bytes) => Some(format!("stores a body of {} bytes", bytes.len())),
        Written::Record(StoreRecord::Pinned(pinned)) => Some(format!("writes pinned {}", of(&pinned.digest))),
        Written::Record(StoreRecord::Released(digest)) => Some(format!("writes released {}", of(digest))),
        Written::Record(StoreRecord::Silent(_) | StoreRecord::Ordered(_)) | Written::Erase(_) => None,
    }
}

pub(crate) fn of_server(written: &Written<ServerRecord<Numbered>>) -> Option<String> {
    match written {
        Written::Record(ServerRecord::Order(numbered)) => {
            Some(format!("writes position {} of the order", numbered.position.0))
        }
        Written::Record(ServerRecord::Mark(mark)) => Some(format!("writes a mark at height {}", mark.height)),
        Written::Record(ServerRecord::Taking(_) | ServerRecord::Certified(_))
        | Written::Blob(..)
        | Written::Erase(_) => None,
    }
}

pub(crate) fn of_client(written: &Written<ClientRecord>) -> Option<String> {
    let Written::Record(ClientRecord::Next(next)) = written else { return None };
    let flight = next.flight.as_ref().map(|flying| format!(", in flight since k0 {}", flying.k0));
    let id = next.id.map_or("no id yet".to_owned(), |id| format!("client {id}"));
    Some(format!("writes {id}, next k {}{}", next.next_k, flight.unwrap_or(", nothing in flight".to_owned())))
}

/// A batch that the application is given.
pub(crate) fn of_apply(apply: &Apply) -> String {
    let of = |(index, entry): (u32, synod_chopchop::columns::Entry<'_>)| {
        let word = entry.message.first().copied().unwrap_or(0);
        match apply.exceptions.reason(index) {
            None => format!("client {} says {word}", entry.id),
            Some(why) => format!("client {} says {word} ({why:?})", entry.id),
        }
    };
    let said: Vec<String> = (0..).zip(apply.batch.columns().entries()).map(of).collect();
    format!("delivers height {}: {}", apply.height, said.join(", "))
}
