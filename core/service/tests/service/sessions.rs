//! The session table against its rules (hotstuff 4.8, TK10).

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, PublicKey};
use synod_machine::Wall;
use synod_machine::broadcast::Position;
use synod_service::sessions::{
    CachedRecord, Fate, Opened, SessionLimits, SessionRecord, Sessions, TableHeader,
};
use synod_service::{ClientFrame, UNSIGNED};
use synod_wire::{Blob, Bytes, Drawn, Limits, List, Wire};

const HOUR: u64 = 3_600_000;

fn limits() -> SessionLimits {
    SessionLimits { sessions_max: 3, window: 64, bodies_max: 4_000, bodies_total_max: 9_000, idle_ms: HOUR }
}

fn key(n: u8) -> PublicKey {
    PublicKey([n; 32])
}

fn frame(session: u64, first: u64, count: usize, acked: u64) -> ClientFrame {
    let commands = vec![Blob::default(); count];
    let commands = List::try_from(commands).expect("short");
    ClientFrame { session, first, acked, full: 0, commands, signature: UNSIGNED }
}

fn open(table: &mut Sessions, n: u8, position: u64, time: u64) -> u64 {
    match table.open(key(n), 0, Position(position), Wall(time)) {
        Opened::New { session, .. } => session,
        other => unreachable!("{other:?}"),
    }
}

fn begin(table: &mut Sessions, frame: &ClientFrame) -> Vec<Fate> {
    let mut fates = Vec::new();
    table.begin(frame, Wall(1), &mut fates).expect("open");
    table.invariants();
    fates
}

fn chunks(table: &Sessions) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    table.chunks(|chunk| chunks.push(chunk));
    chunks
}

/// TK10.
#[test]
fn an_opening_ordered_twice_is_one_session() {
    let mut table = Sessions::new(limits());
    assert_eq!(open(&mut table, 1, 10, 0), 10);
    assert_eq!(table.open(key(1), 0, Position(11), Wall(5)), Opened::Before(10));
    assert_eq!(table.open(key(1), 1, Position(12), Wall(5)), Opened::New { session: 12, closed: None });
    assert_eq!((table.count(), table.find(key(1), 0), table.find(key(2), 0)), (2, Some(10), None));
}

/// TK10.
#[test]
fn the_edges_of_the_window_are_sharp() {
    let mut table = Sessions::new(limits());
    let id = open(&mut table, 1, 1, 0);
    assert_eq!(begin(&mut table, &frame(id, 64, 2, 0)), [Fate::Fresh, Fate::Outside]);
    assert_eq!(begin(&mut table, &frame(id, 1, 1, 0)), [Fate::Fresh]);
    assert_eq!(begin(&mut table, &frame(id, 64, 2, 2)), [Fate::Repeated, Fate::Fresh]);
    assert_eq!(begin(&mut table, &frame(id, 1, 2, 0)), [Fate::Forgotten, Fate::Fresh]);
}

/// TK11.
#[test]
fn the_base_never_falls_and_moves_at_most_one_window() {
    let mut table = Sessions::new(limits());
    let id = open(&mut table, 1, 1, 0);
    begin(&mut table, &frame(id, 1, 1, u64::MAX));
    let base = |table: &Sessions| table.get(id).map(|session| session.window().base());
    assert_eq!(base(&table), Some(65));
    begin(&mut table, &frame(id, 70, 1, 3));
    assert_eq!(base(&table), Some(65), "an old frame carries an old acknowledgement");
}

#[test]
fn a_full_table_closes_only_the_session_longest_idle_and_only_after_an_hour() {
    let mut table = Sessions::new(limits());
    (1..=3).for_each(|n| {
        open(&mut table, n, u64::from(n), u64::from(n) * 1_000);
    });
    assert_eq!(table.open(key(9), 0, Position(9), Wall(1_000 + HOUR)), Opened::Full);
    let mut fates = Vec::new();
    table.begin(&frame(1, 1, 1, 0), Wall(1_500), &mut fates).expect("open");
    let opened = table.open(key(9), 0, Position(9), Wall(1_501 + HOUR));
    assert_eq!(opened, Opened::New { session: 9, closed: Some(1) }, "session 1 was idle since 1,500");
    assert_eq!(table.begin(&frame(1, 2, 1, 0), Wall(0), &mut fates), None);
    table.invariants();
}

/// TK10.
#[test]
fn bodies_leave_oldest_first_and_digests_stay() {
    let mut table = Sessions::new(limits());
    let id = open(&mut table, 1, 1, 0);
    for n in 1..=4_u8 {
        let frame = frame(id, u64::from(n), 1, 0);
        begin(&mut table, &frame);
        table.remember(&frame, Hash([n; 32]), &Bytes::from(vec![n; 1_500]));
        table.invariants();
    }
    let session = table.get(id).expect("open");
    let kept: Vec<bool> =
        (1..=4).map(|n| session.cached(n).expect("not acknowledged").body.is_some()).collect();
    assert_eq!(kept, [false, false, true, true]);
    assert!((1..=4_u8).all(|n| session.cached(u64::from(n)).expect("kept").digest == Hash([n; 32])));
    let large = frame(id, 5, 1, 5);
    begin(&mut table, &large);
    table.remember(&large, Hash::ZERO, &Bytes::from(vec![0; 4_097]));
    let session = table.get(id).expect("open");
    assert!(session.cached(5).expect("kept").body.is_none(), "a body above 4 KiB is not kept");
    assert!((1..=4).all(|n| session.cached(n).is_none()), "acknowledged results go at once");
}

#[test]
fn all_bodies_together_are_bounded_by_the_longest_idle() {
    let mut table = Sessions::new(limits());
    let ids: Vec<u64> = (1..=3).map(|n| open(&mut table, n, u64::from(n), u64::from(n))).collect();
    for round in 0..2 {
        for id in &ids {
            let frame = frame(*id, 1 + round, 1, 0);
            begin(&mut table, &frame);
            table.remember(&frame, Hash::ZERO, &Bytes::from(vec![0; 2_000]));
            table.invariants();
        }
    }
    let held = |id: &u64| {
        (1..=2)
            .filter(|n| table.get(*id).and_then(|s| s.cached(*n)).is_some_and(|c| c.body.is_some()))
            .count()
    };
    assert_eq!(ids.iter().map(held).collect::<Vec<_>>(), [0, 2, 2]);
}

#[test]
fn a_table_restored_from_its_chunks_is_the_same_table() {
    for seed in 0..60 {
        let mut from = Drawn::new(seed);
        let wide = SessionLimits { sessions_max: 200, window: 1_024, ..limits() };
        let mut table = Sessions::new(wide);
        drawn_history(&mut table, &mut from, 300);
        let before = chunks(&table);
        assert!(before.iter().all(|chunk| chunk.len() <= 64 << 10));
        let mut again = Sessions::restore(wide, &before).expect("own chunks");
        again.invariants();
        assert_eq!((chunks(&again), again.bytes()), (before, table.bytes()));
        // And it goes on alike.
        let mut same = from.clone();
        drawn_history(&mut table, &mut from, 50);
        drawn_history(&mut again, &mut same, 50);
        assert_eq!(chunks(&again), chunks(&table), "seed {seed}");
    }
}

fn drawn_history(table: &mut Sessions, from: &mut Drawn, steps: u64) {
    let mut fates = Vec::new();
    for step in 0..steps {
        let position = from.next() >> 1;
        let time = Wall(step * HOUR / 10);
        let n = u8::try_from(from.below(200)).expect("small");
        table.open(key(n), from.below(2), Position(position), time);
        let Some(session) = table.find(key(n), 0) else { continue };
        let frame = frame(session, 1 + from.below(1_100), 1 + from.length(4), from.below(400));
        table.begin(&frame, time, &mut fates).expect("open");
        if fates.contains(&Fate::Fresh) {
            let body = vec![7; usize::try_from(from.below(3_000)).expect("small")];
            table.remember(&frame, Hash([n; 32]), &Bytes::from(body));
        }
        table.invariants();
        assert!(table.bytes() <= Sessions::bytes_max(table.limits()));
    }
}

#[test]
fn chunks_of_other_limits_or_cut_ones_are_refused() {
    let mut table = Sessions::new(limits());
    open(&mut table, 1, 1, 0);
    let all = chunks(&table);
    assert!(Sessions::restore(SessionLimits { window: 128, ..limits() }, &all).is_err());
    assert!(Sessions::restore(SessionLimits { sessions_max: 0, ..limits() }, &all).is_err());
    let cut = all[0].slice(..all[0].len() - 1);
    assert!(Sessions::restore(limits(), &[cut]).is_err());
    assert!(Sessions::restore(limits(), &all).is_ok());
}

#[test]
fn a_table_that_would_be_encoded_otherwise_is_refused() {
    let mut table = Sessions::new(limits());
    let id = open(&mut table, 1, 1, 0);
    begin(&mut table, &frame(id, 1, 2, 0));
    table.remember(&frame(id, 1, 2, 0), Hash([7; 32]), &Bytes::from_static(b"x"));
    let all = chunks(&table).remove(0);
    let header = TableHeader { window: limits().window, count: 1 }.encode();
    let record = SessionRecord::decode(all.slice(header.len()..), &Limits { frame_max: 1 << 20 });
    let record = record.expect("one session follows the header");
    let restored = |records: &[SessionRecord]| {
        let count = u32::try_from(records.len()).expect("small");
        let mut all = TableHeader { window: limits().window, count }.encode().to_vec();
        records.iter().for_each(|record| all.extend_from_slice(&record.encode()));
        Sessions::restore(limits(), &[Bytes::from(all)]).is_ok()
    };
    assert!(restored(core::slice::from_ref(&record)));
    let kept = record.cached[0].clone();
    let keeping = |kept: Vec<CachedRecord>| SessionRecord {
        cached: List::try_from(kept).expect("short"),
        ..record.clone()
    };
    assert!(!restored(&[keeping(vec![kept.clone(), kept.clone()])]), "one frame kept twice");
    assert!(!restored(&[keeping(vec![CachedRecord { end: kept.first, ..kept }])]), "a frame of no command");
    let other = SessionRecord { id: id + 1, ..record.clone() };
    assert!(!restored(&[record, other]), "one opening, two sessions");
}

#[test]
fn no_drawn_history_executes_a_sequence_twice() {
    for seed in 0..100 {
        let mut from = Drawn::new(seed);
        let mut table = Sessions::new(limits());
        let id = open(&mut table, 1, 1, 0);
        let (mut executed, mut highest_base) = (BTreeSet::new(), 0);
        let mut model: BTreeMap<u64, bool> = BTreeMap::new();
        for _ in 0..400 {
            let near = table.get(id).expect("open").window().base().saturating_sub(6);
            let frame = frame(id, 1 + near + from.below(75), 1 + from.length(5), near + from.below(10));
            for (sequence, fate) in (frame.first..).zip(begin(&mut table, &frame)) {
                let base = table.get(id).expect("open").window().base();
                assert!(base >= highest_base);
                highest_base = base;
                let expected = match () {
                    () if sequence < base => Fate::Forgotten,
                    () if sequence >= base + 64 => Fate::Outside,
                    () if model.contains_key(&sequence) => Fate::Repeated,
                    () => Fate::Fresh,
                };
                assert_eq!(fate, expected, "seed {seed} sequence {sequence}");
                if fate == Fate::Fresh {
                    assert!(executed.insert(sequence), "seed {seed}: {sequence} executed twice");
                    model.insert(sequence, true);
                }
            }
        }
        assert!(executed.len() > 60, "the history got somewhere");
    }
}
