//! Chop Chop: id columns, batches, cards, certificates, messages, datagrams, exceptions.

use core::fmt::Debug;

use synod_chopchop::batch::{Batch, Header, Sealed};
use synod_chopchop::card::Card;
use synod_chopchop::certificate::Legitimacy;
use synod_chopchop::client::ClientRecord;
use synod_chopchop::datagram::Envelope;
use synod_chopchop::dedup::{CHUNK_SLOTS, Chunk, Exceptions, Reason, Runs, Table};
use synod_chopchop::directory::{Directory, Member, MemberChunk};
use synod_chopchop::ids::{IdCodec, IdColumn, IdShape, encode, encode_as};
use synod_chopchop::item::Item;
use synod_chopchop::message::{ClientMessage, ServerMessage, StoreMessage};
use synod_chopchop::receipt::Receipt;
use synod_chopchop::signup::SealedSignUp;
use synod_chopchop::statement::{Delivered, Height, Witness};
use synod_chopchop::store::StoreRecord;
use synod_crypto::HashKey;
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::wires;
use crate::check::{accept, bounded};
use crate::{Kind, Tape, Target};

/// A number stands in for the records of the ordering layer.
type ServerRecord = synod_chopchop::server::ServerRecord<Height>;
/// Bytes of a chunk of slots.
const CHUNK_BYTES: usize = CHUNK_SLOTS * 16;

wires! {
    "chop-card" card Card;
    "chop-delivered" delivered Delivered;
    "chop-header" header Header;
    "chop-sign-up" sign_up SealedSignUp;
    "chop-server-record" server_record ServerRecord;
    "chop-store-message" store_message StoreMessage;
    "chop-store-record" store_record StoreRecord;
    "chop-witness" witness Witness;
    and Target::new("chop-client-message", Kind::Decoder, client_message, crate::check::drawn::<ClientMessage>);
    and Target::new("chop-client-record", Kind::Decoder, client_record, crate::check::drawn::<ClientRecord>);
    and Target::new("chop-receipt", Kind::Decoder, receipt, crate::check::drawn::<Receipt>);
    and Target::new("chop-slots", Kind::Decoder, slots, chunk_of_slots);
    and Target::new("chop-item", Kind::Decoder, item, crate::check::drawn::<Item>);
    and Target::new("chop-legitimacy", Kind::Decoder, legitimacy, crate::check::drawn::<Legitimacy>);
    and Target::new("chop-server-message", Kind::Decoder, server_message, crate::check::drawn::<ServerMessage>);
    and Target::new("chop-batch", Kind::Slow, batch, crate::check::drawn::<Sealed>);
    and Target::new("chop-ids", Kind::Decoder, ids, columns);
    and Target::new("chop-exceptions", Kind::Decoder, exceptions, vectors);
    and Target::new("chop-members", Kind::Decoder, members, chunks);
    and Target::new("chop-datagram", Kind::Decoder, datagram, datagrams);
}

/// The properties of an encoding whose bitmap is as wide as its frame leaves room for: one byte more may be a wider
/// bitmap, which whoever knows the cluster refuses. What is read is still written as the same bytes.
fn open_ended<T: Wire + PartialEq + Debug>(bytes: &[u8]) {
    let input = Bytes::copy_from_slice(bytes);
    let Ok(value) = bounded(bytes.len(), || T::decode(input, &Limits::default())) else { return };
    accept();
    let again = value.encode();
    assert!(again == bytes, "roundtrip: {value:?} was decoded from other bytes, it is encoded as {again:?}");
    assert!(
        T::decode(again, &Limits::default()).as_ref() == Ok(&value),
        "roundtrip: {value:?} does not come back"
    );
}

/// Decodes a message between client and broker.
///
/// # Panics
/// With the property that broke.
pub fn client_message(bytes: &[u8]) {
    open_ended::<ClientMessage>(bytes);
}

/// Decodes an ordered item.
///
/// # Panics
/// With the property that broke.
pub fn item(bytes: &[u8]) {
    open_ended::<Item>(bytes);
}

/// Decodes a certificate that a client attaches.
///
/// # Panics
/// With the property that broke.
pub fn legitimacy(bytes: &[u8]) {
    open_ended::<Legitimacy>(bytes);
}

/// Decodes a message to or from a server.
///
/// # Panics
/// With the property that broke.
pub fn server_message(bytes: &[u8]) {
    open_ended::<ServerMessage>(bytes);
}

/// Decodes a record of a client.
///
/// # Panics
/// With the property that broke.
pub fn client_record(bytes: &[u8]) {
    open_ended::<ClientRecord>(bytes);
}

/// Decodes a receipt.
///
/// # Panics
/// With the property that broke.
pub fn receipt(bytes: &[u8]) {
    open_ended::<Receipt>(bytes);
}

/// Reads a chunk of the deduplication table: slots that are not written are zero.
///
/// # Panics
/// When a chunk is accepted that its slots are not written as.
pub fn slots(bytes: &[u8]) {
    let mut whole = bytes.to_vec();
    // A chunk has one length, which few inputs have.
    if !bytes.is_empty() && bytes.len() < CHUNK_BYTES {
        whole.resize(CHUNK_BYTES, 0);
    }
    let Some(chunk) = bounded(whole.len(), || Chunk::decode(&whole)) else { return };
    accept();
    assert_eq!(chunk.encode(), whole, "roundtrip: a chunk is written otherwise");
    let table = Table::restore(3, 9, vec![chunk.into()]);
    assert!(table.is_some_and(|table| (0..9).all(|id| table.slot(id).is_some())));
}

fn chunk_of_slots(from: &mut Drawn) -> Vec<u8> {
    (0..=from.below(200)).map(|_| u8::draw(from)).collect()
}

/// Ids below which a batch is also deduplicated.
const IDS: u32 = 8_192;

/// Decodes a batch, opens and checks it, reads every column, and deduplicates it twice.
///
/// # Panics
/// With the property that broke.
pub fn batch(bytes: &[u8]) {
    crate::check::wire::<Sealed>(bytes);
    let Ok(sealed) = Sealed::decode(Bytes::copy_from_slice(bytes), &Limits::default()) else { return };
    let (least, most) = sealed.header.shape().body_bounds();
    let Ok(opened) = bounded(bytes.len(), || Batch::open(&sealed)) else { return };
    let within = (least..=most).contains(&u64::from(sealed.header.body_len));
    assert!(within, "a body that was opened has a length that its header rules out");
    let columns = opened.columns();
    let count = sealed.header.count as usize;
    assert_eq!((columns.ids().count(), columns.entries().count()), (count, count), "an entry per id");
    assert_eq!(columns.stragglers().count(), sealed.header.stragglers as usize);
    assert_eq!(columns.voids().count(), sealed.header.voids as usize);
    let total: usize = columns.entries().map(|entry| entry.message.len()).sum();
    assert_eq!(total, columns.messages().len(), "messages tile their column");
    if opened.check().is_err() {
        return;
    }
    let ids: Vec<u32> = columns.ids().collect();
    assert!(ids.is_sorted_by(|a, b| a < b) && ids.last() < Some(&sealed.header.directory));
    let mut table = Table::new(3);
    table.grow(IDS);
    let Some(runs) = Runs::split(opened, &table) else { return };
    let first = runs.apply(&mut table);
    assert!(first.list().iter().all(|(_, reason)| *reason == Reason::Void), "the first of every client");
    assert_eq!(runs.apply(&mut table).exc_count(), sealed.header.count, "nothing is delivered twice");
}

/// Decodes an id column: codec, width, one byte more than the ids, the directory's length, then the column.
///
/// # Panics
/// When a column is accepted that its ids are not written as.
pub fn ids(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let (number, bits) = (tape.byte(), tape.byte());
    let count = u32::from(tape.word());
    let directory = u32::from(tape.word()) | u32::from(tape.word()) << 16;
    let column = tape.take(usize::MAX);
    let Ok(codec) = IdCodec::of(number, bits) else { return };
    let (shape, input) = (IdShape { codec, count, directory }, Bytes::copy_from_slice(column));
    let Ok(decoded) = bounded(bytes.len(), || IdColumn::decode(shape, input)) else { return };
    accept();
    let ids: Vec<u32> = decoded.iter().collect();
    assert_eq!(ids.len(), count as usize, "as many ids as claimed");
    if ids.is_sorted_by(|a, b| a < b) && ids.last() < Some(&directory) {
        let again = encode_as(codec, &ids, directory);
        assert_eq!(again.as_deref(), Ok(column), "roundtrip: {ids:?} is written otherwise");
    }
}

fn columns(from: &mut Drawn) -> Vec<u8> {
    let most = if bool::draw(from) { 3 } else { 60_000 };
    let step = 1 + from.below(most);
    let mut id = u32::try_from(from.below(1_000)).unwrap_or(0);
    let mut ids = Vec::new();
    for _ in 0..=from.below(60) {
        ids.push(id);
        id += 1 + u32::try_from(from.below(step)).unwrap_or(0);
    }
    let directory = id + u32::try_from(from.below(100)).unwrap_or(0);
    let smallest = encode(&ids, directory).map(|encoded| encoded.codec).unwrap_or(IdCodec::EliasFano);
    let codec = if bool::draw(from) { smallest } else { IdCodec::EliasFano };
    let column = encode_as(codec, &ids, directory).unwrap_or_default();
    let count = u16::try_from(ids.len()).unwrap_or(0);
    let mut out = vec![codec.number(), codec.bits()];
    out.extend(count.to_le_bytes());
    out.extend(directory.to_le_bytes());
    out.extend(column);
    out
}

/// Reads a vector of exceptions: two bytes of count, then the vector.
///
/// # Panics
/// When a vector is accepted that its exceptions are not written as.
pub fn exceptions(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let count = u32::from(tape.word());
    let vector = tape.take(usize::MAX);
    // The list takes 8 bytes per entry, of which a byte of the vector holds four.
    let Some(read) = Exceptions::from_vector(count, vector) else { return };
    accept();
    assert_eq!(read.vector(), vector, "roundtrip: a vector is written otherwise");
    assert_eq!(Exceptions::checked(count, read.list().to_vec()), Some(read));
}

fn vectors(from: &mut Drawn) -> Vec<u8> {
    let count = u32::try_from(from.below(600)).unwrap_or(0);
    let list = (0..count).filter_map(|index| Some((index, Reason::of(u8::draw(from) % 7)?))).collect();
    let exceptions = Exceptions::checked(count, list);
    let vector = exceptions.map(|exceptions| exceptions.vector()).unwrap_or_default();
    let mut out = u16::try_from(count).unwrap_or(0).to_le_bytes().to_vec();
    out.extend_from_slice(&vector);
    out
}

/// Reads a chunk of members and restores a directory from it.
///
/// # Panics
/// When a chunk is accepted that its members are not written as, or a member of a restored directory is not found.
pub fn members(bytes: &[u8]) {
    let Some(chunk) = bounded(bytes.len(), || MemberChunk::decode(bytes)) else { return };
    accept();
    assert_eq!(chunk.encode(), bytes, "roundtrip: a chunk is written otherwise");
    let members = chunk.members().to_vec();
    let Some(directory) = Directory::restore(vec![chunk.into()]) else { return };
    for (id, member) in (0..).zip(&members) {
        assert_eq!(directory.id_of(member), Some(id), "every member has its own id");
    }
}

fn chunks(from: &mut Drawn) -> Vec<u8> {
    (0..=from.below(6)).flat_map(|_| Member::draw(from).encode()).collect()
}

fn link_key() -> HashKey {
    HashKey::derive("synod fuzz link", b"key")
}

/// Opens a datagram.
///
/// # Panics
/// When a datagram is accepted that its message is not sealed as.
pub fn datagram(bytes: &[u8]) {
    let Ok((envelope, message)) = bounded(bytes.len(), || Envelope::open(&link_key(), bytes)) else { return };
    accept();
    let again = envelope.seal(&link_key(), &message);
    assert_eq!(again.as_deref(), Some(bytes), "roundtrip: a datagram is sealed otherwise");
}

fn datagrams(from: &mut Drawn) -> Vec<u8> {
    let envelope = Envelope { link: Draw::draw(from), sequence: Draw::draw(from) };
    loop {
        if let Some(sealed) = envelope.seal(&link_key(), &ClientMessage::draw(from).encode()) {
            break sealed.to_vec();
        }
    }
}
