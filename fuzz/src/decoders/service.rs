//! The service: messages of clients and members, ordered items, records, the session table.

use synod_crypto::PublicKey;
use synod_machine::Wall;
use synod_machine::broadcast::Position;
use synod_service::executor::{ExecutorRecord, SnapshotRecord};
use synod_service::sessions::{CachedRecord, Opened, SessionLimits, SessionRecord, Sessions, TableHeader};
use synod_service::{
    CHUNK_MAX, ClientFrame, ClientMessage, Item, Opening, Results, Said, StateSummary, UNSIGNED, body_digest,
};
use synod_wire::{Blob, Bytes, Draw, Drawn, List};

use super::{some_bytes, wires};
use crate::check::{accept, bounded, canonical};
use crate::{Kind, Target};

wires! {
    "service-message" message ClientMessage;
    "service-said" said Said;
    "service-results" results Results;
    "service-summary" summary StateSummary;
    "service-snapshot-record" snapshot_record SnapshotRecord;
    "service-executor-record" executor_record ExecutorRecord;
    "service-table-header" table_header TableHeader;
    "service-session-record" session_record SessionRecord;
    "service-cached-record" cached_record CachedRecord;
    and Target::new("service-item", Kind::Decoder, item, payload);
    and Target::new("service-table", Kind::Slow, table, chunks);
}

/// Parses an ordered item under its rules.
///
/// # Panics
/// With the property that broke, or when a frame breaks a rule that parsing checks.
pub fn item(bytes: &[u8]) {
    let input = Bytes::copy_from_slice(bytes);
    let Ok(item) = bounded(bytes.len(), || Item::parse(&input)) else { return };
    accept();
    canonical(bytes, &item, |bytes| Item::parse(&bytes).ok(), Item::payload);
    let said = item.said(bytes);
    let resigned = item.clone().signed(UNSIGNED);
    assert_eq!(said, resigned.said(&resigned.payload()), "the digest of an item covers its signature");
    if let Item::Frame(frame) = &item {
        assert!(frame.session != 0 && frame.first != 0 && !frame.commands.is_empty());
        assert_eq!(frame.end(), frame.first + frame.commands.len() as u64, "sequences of a frame overflow");
    }
}

fn payload(from: &mut Drawn) -> Vec<u8> {
    let item = match from.below(3) {
        0 => Item::Open(Opening::draw(from)),
        _ => {
            let commands: Vec<Blob<_>> = (0..=from.below(4))
                .map(|_| Blob::try_from(Bytes::from(some_bytes(from, 200))).unwrap_or_default())
                .collect();
            Item::Frame(ClientFrame {
                session: 1 + from.below(300),
                first: 1 + from.below(1 << 40),
                commands: List::try_from(commands).unwrap_or_default(),
                ..ClientFrame::draw(from)
            })
        }
    };
    item.payload().to_vec()
}

/// The limits of the table of this target: small enough that inputs reach them.
const LIMITS: SessionLimits = SessionLimits {
    sessions_max: 8,
    window: 64,
    bodies_max: 1 << 10,
    bodies_total_max: 4 << 10,
    idle_ms: 1_000,
};

/// What a table sets aside for itself, whatever it is restored from.
const TABLE_BYTES: usize = 64 << 10;

/// Restores a session table from its chunks, cut where the input says.
///
/// # Panics
/// When a table that was restored is not encoded as it was.
pub fn table(bytes: &[u8]) {
    let chunks: Vec<Bytes> = bytes.chunks(CHUNK_MAX).map(Bytes::copy_from_slice).collect();
    let restored = bounded(bytes.len() + TABLE_BYTES / 8, || Sessions::restore(LIMITS, &chunks));
    let Ok(sessions) = restored else { return };
    accept();
    sessions.invariants();
    let mut again = Vec::new();
    sessions.chunks(|chunk| again.extend_from_slice(&chunk));
    assert!(again == bytes, "roundtrip: a session table was restored from other bytes than it encodes to");
}

/// The table after openings and executed frames.
fn chunks(from: &mut Drawn) -> Vec<u8> {
    let mut sessions = Sessions::new(LIMITS);
    let mut open: Vec<(u64, u64)> = Vec::new();
    for position in 1..=1 + from.below(12) {
        let time = Wall(position * 10);
        let at = usize::try_from(from.below(1 + open.len() as u64)).unwrap_or(0);
        match open.get_mut(at) {
            Some((session, next)) => {
                execute(&mut sessions, (*session, *next), time, from);
                *next += 1;
            }
            None => {
                let opened = sessions.open(PublicKey::draw(from), from.below(4), Position(position), time);
                if matches!(opened, Opened::New { .. }) {
                    open.push((position, 1));
                }
            }
        }
    }
    let mut out = Vec::new();
    sessions.chunks(|chunk| out.extend_from_slice(&chunk));
    out
}

/// Executes a frame of one command and keeps its result.
fn execute(sessions: &mut Sessions, (session, first): (u64, u64), time: Wall, from: &mut Drawn) {
    let command = Blob::try_from(Bytes::from_static(b"command")).unwrap_or_default();
    let frame = ClientFrame {
        session,
        first,
        acked: from.below(first + 1),
        full: 0,
        commands: List::try_from(vec![command]).unwrap_or_default(),
        signature: UNSIGNED,
    };
    if sessions.begin(&frame, time, &mut Vec::new()).is_some() {
        let body = Bytes::from(some_bytes(from, 40));
        sessions.remember(&frame, body_digest(&body), &body);
    }
}
