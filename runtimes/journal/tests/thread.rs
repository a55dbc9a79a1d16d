//! The journal thread: one sync for all that waits, reports by lane, snapshots lane by lane.

use std::sync::mpsc::{self, Receiver};

use bytes::Bytes;
use synod_journal::memory::{Failure, MemDisk, Strike};
use synod_journal::thread::{Durable, JournalThread, Lane, Report, Write, spawn};
use synod_journal::{Condition, Config, Keep, Opened};

mod rig;
use rig::{body, config, fresh, name_of, open};

struct Running {
    thread: JournalThread,
    lanes: Vec<Lane>,
    reports: Receiver<Report>,
}

fn run(opened: Opened) -> Running {
    let (sender, reports) = mpsc::channel();
    // The test may have ended; then nobody reads the report.
    let report = Box::new(move |report| drop(sender.send(report)));
    let (thread, lanes) = spawn(opened.journal, report).expect("a thread starts");
    Running { thread, lanes, reports }
}

fn start(config: &Config) -> (MemDisk, Running) {
    let (disk, opened) = fresh(config);
    (disk, run(opened))
}

impl Running {
    /// Waits until `count` submissions of a lane are durable; gives the reports on the way.
    fn until(&self, lane: u8, count: u64) -> Vec<Durable> {
        let mut seen = Vec::new();
        loop {
            match self.reports.recv().expect("the thread reports") {
                Report::Durable(durable) => {
                    let done = durable.lanes.iter().any(|(at, reached)| *at == lane && *reached >= count);
                    seen.push(durable);
                    if done {
                        return seen;
                    }
                }
                Report::Failed(error) => unreachable!("the journal failed: {error}"),
                Report::Marked { .. }
                | Report::Loaded { .. }
                | Report::Compacted { .. }
                | Report::SnapshotDropped { .. } => {}
            }
        }
    }
}

#[test]
fn each_lane_learns_how_much_of_its_own_is_durable() {
    let config = config(3);
    let (disk, mut running) = start(&config);
    for tag in 0..50 {
        let lane = &mut running.lanes[usize::try_from(tag % 3).expect("small")];
        assert_eq!(lane.append(Keep::Log, body(tag, 90)).expect("taken"), tag / 3 + 1);
    }
    assert_eq!(running.lanes[1].issued(), 17);
    let seen = running.until(1, 17);
    let records: u64 = seen.iter().map(|durable| durable.records).sum();
    assert!(records >= 49, "everything before the last submission of lane 1 is settled: {records}");
    assert!(seen.windows(2).all(|pair| pair[0].lsn < pair[1].lsn), "positions rise");
    assert!(seen.iter().all(|durable| durable.counters.syncs > 0));
    running.thread.close().expect("closed");
    let opened = open(&disk, &config).expect("opens");
    let held: usize = opened.lanes.iter().map(|lane| lane.records.len()).sum();
    assert_eq!(held, 50);
    assert!(opened.lanes.iter().all(|lane| lane.condition == Condition::Clean));
}

#[test]
fn what_waits_while_a_sync_runs_shares_the_next_one() {
    let config = config(1);
    let (_, opened) = fresh(&config);
    let (sender, reports) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    // The first report holds the thread until everything else is queued.
    let report = Box::new(move |report| {
        if sender.send(report).is_ok() {
            gate.recv().expect_err("nothing comes, the gate just opens");
        }
    });
    let (thread, mut lanes) = spawn(opened.journal, report).expect("a thread starts");
    lanes[0].append(Keep::Log, body(1, 10)).expect("taken");
    let Report::Durable(first) = reports.recv().expect("a report") else { panic!("not durable") };
    assert_eq!((first.records, &first.lanes[..]), (1, &[(0, 1)][..]));
    for tag in 0..100 {
        lanes[0].append(Keep::LogAndSlot, body(tag, 10)).expect("taken");
    }
    drop(go);
    let Report::Durable(second) = reports.recv().expect("a report") else { panic!("not durable") };
    assert_eq!((second.records, &second.lanes[..]), (100, &[(0, 101)][..]));
    assert_eq!(second.counters.syncs, first.counters.syncs + 1, "one hundred records, one sync");
    assert!(second.log_bytes > first.log_bytes);
    thread.close().expect("closed");
}

#[test]
fn writes_submitted_together_share_one_sync() {
    let config = config(1);
    let (_, mut running) = start(&config);
    let blob = body(7, 300);
    for round in 1..=20 {
        let writes = vec![
            Write::Append(Keep::Log, body(round, 10)),
            Write::Store(name_of(&blob), blob.clone()),
            Write::Append(Keep::LogAndSlot, body(round, 20)),
            Write::Erase(name_of(&blob)),
        ];
        assert_eq!(running.lanes[0].submit_all(writes).expect("taken"), 4 * round);
        let seen = running.until(0, 4 * round);
        assert_eq!(seen.iter().map(|durable| durable.records).collect::<Vec<_>>(), [4], "one sync");
    }
    assert_eq!(running.lanes[0].submit_all(Vec::new()).expect("nothing to take"), 80);
    running.thread.close().expect("closed");
}

#[test]
fn an_idle_thread_marks_what_it_synced() {
    let config = config(1);
    let (disk, mut running) = start(&config);
    running.lanes[0].append(Keep::Log, body(1, 200)).expect("taken");
    let durable = running.until(0, 1).pop().expect("a report").lsn;
    let Report::Marked { lsn } = running.reports.recv().expect("a report") else { panic!("no mark") };
    assert_eq!(lsn, durable);
    // A crash without a close: the mark is on the disk and covers the record.
    let disk = disk.crash(&mut rig::drop_all);
    disk.rot(&synod_journal::segment::name(1), synod_journal::segment::data_at(1) + 56 + 100, 1);
    assert_eq!(open(&disk, &config).expect("opens").lanes[0].condition, Condition::Damaged);
}

#[test]
fn closing_settles_and_marks_so_that_nothing_can_be_taken_for_a_torn_tail() {
    let config = config(1);
    let (disk, mut running) = start(&config);
    running.lanes[0].append(Keep::Log, body(1, 200)).expect("taken");
    running.lanes[0].append(Keep::Log, body(2, 200)).expect("taken");
    running.thread.close().expect("closed");
    assert_eq!(running.lanes[0].append(Keep::Log, body(3, 1)).expect_err("closed").code(), 5004);
    let last = synod_journal::segment::data_at(1) + 56 + 256 + 100;
    disk.rot(&synod_journal::segment::name(1), last, 1);
    assert_eq!(open(&disk, &config).expect("opens").lanes[0].condition, Condition::Damaged);
}

#[test]
fn blobs_are_loaded_by_their_lane() {
    let config = config(2);
    let (_, mut running) = start(&config);
    let blob = Bytes::from_static(b"a block body");
    running.lanes[1].store(name_of(&blob), blob.clone()).expect("taken");
    for lane in [0, 1] {
        running.lanes[lane].load(name_of(&blob)).expect("asked");
    }
    running.lanes[1].erase(name_of(&blob)).expect("taken");
    running.lanes[1].load(name_of(&blob)).expect("asked");
    let answers: Vec<_> = std::iter::from_fn(|| running.reports.recv().ok())
        .filter_map(|report| match report {
            Report::Loaded { lane, bytes, .. } => Some((lane, bytes)),
            _ => None,
        })
        .take(3)
        .collect();
    assert_eq!(answers, [(0, None), (1, Some(blob)), (1, None)]);
    running.thread.close().expect("closed");
}

#[test]
fn snapshots_given_lane_by_lane_lose_nothing_that_came_between() {
    let config = config(2);
    let (disk, mut running) = start(&config);
    running.lanes[0].append(Keep::Log, body(1, 50)).expect("taken");
    running.lanes[1].append(Keep::Log, body(2, 50)).expect("taken");
    running.lanes[0].snapshot(vec![(Keep::Log, body(10, 20))]).expect("given");
    running.lanes[0].append(Keep::LogAndSlot, body(3, 50)).expect("taken");
    running.lanes[1].append(Keep::Log, body(4, 50)).expect("taken");
    running.lanes[1].snapshot(vec![(Keep::Log, body(20, 20))]).expect("given");
    running.lanes[1].append(Keep::Log, body(5, 50)).expect("taken");
    let compacted = std::iter::from_fn(|| running.reports.recv().ok())
        .any(|report| matches!(report, Report::Compacted { .. }));
    assert!(compacted, "every lane has given its snapshot");
    running.thread.close().expect("closed");
    let opened = open(&disk, &config).expect("opens");
    assert_eq!(opened.lanes[0].records, [body(10, 20), body(3, 50)]);
    assert_eq!(opened.lanes[1].records, [body(20, 20), body(5, 50)]);
}

#[test]
fn a_readmitted_lane_is_clean_after_its_next_snapshot() {
    let config = config(1);
    let disk = MemDisk::new();
    synod_journal::Journal::reset_damaged(Box::new(disk.clone()), config.clone()).expect("reset");
    let mut running = run(open(&disk, &config).expect("opens"));
    let lane = &mut running.lanes[0];
    lane.readmit().expect("stated");
    lane.snapshot(vec![(Keep::LogAndSlot, body(1, 20))]).expect("given");
    running.thread.close().expect("closed");
    let opened = open(&disk, &config).expect("opens");
    assert_eq!(
        (opened.lanes[0].condition, &opened.lanes[0].records[..]),
        (Condition::Clean, &[body(1, 20)][..])
    );
}

#[test]
fn a_failure_is_reported_once_and_ends_every_lane() {
    let config = config(2);
    for strike in [Strike::Write, Strike::Sync] {
        let (disk, opened) = fresh(&config);
        disk.fail(strike, 0, Failure::Error);
        let mut running = run(opened);
        running.lanes[0].append(Keep::LogAndSlot, body(1, 50)).expect("taken");
        let reports: Vec<Report> = running.reports.iter().collect();
        assert!(
            matches!(&reports[..], [Report::Failed(error)] if error.code() == 5004),
            "nothing is called durable: {reports:?}"
        );
        for lane in &mut running.lanes {
            assert_eq!(lane.append(Keep::Log, body(2, 5)).expect_err("it is over").code(), 5004);
        }
        assert_eq!(running.thread.close().expect_err("it has failed").code(), 5004);
    }
}

#[test]
fn a_snapshot_of_more_than_a_segment_compacts_and_leaves_a_short_log() {
    let config = Config { segment_bytes: 4 << 20, ..config(1) };
    let (disk, mut running) = start(&config);
    let records: Vec<Bytes> = (0..9_u8).map(|tag| Bytes::from(vec![tag; 8 << 20])).collect();
    let lane = &mut running.lanes[0];
    lane.snapshot(records.iter().map(|body| (Keep::Log, body.clone())).collect()).expect("72 MiB are taken");
    assert_eq!(lane.append(Keep::LogAndSlot, body(1, 50)).expect("taken"), 1);
    let compacted = std::iter::from_fn(|| running.reports.recv().ok())
        .any(|report| matches!(report, Report::Compacted { .. }));
    assert!(compacted, "the only lane has given its snapshot");
    running.lanes[0].append(Keep::Log, body(2, 50)).expect("taken");
    let durable = running.until(0, 2).pop().expect("a report");
    assert!(durable.log_bytes < 1 << 10, "{} bytes behind the snapshot", durable.log_bytes);
    running.thread.close().expect("closed");
    let opened = open(&disk, &config).expect("opens");
    assert_eq!(opened.lanes[0].condition, Condition::Clean);
    let expected: Vec<Bytes> = records.into_iter().chain([body(1, 50), body(2, 50)]).collect();
    assert!(opened.lanes[0].records == expected, "every record is there, in order");
}
