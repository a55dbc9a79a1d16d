//! The promises of the file system, on the tree and through a real mount.

use super::change::Change;
use super::cut::Fate;
use super::nodes::{Content, Directory, File as Plain, Meta};
use super::tree::{ROOT, Tree};
use super::{Cut, Disk, Eio, Faults, Moment, Mounted, available};
use crate::Draw;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

fn make(tree: &mut Tree, parent: u64, text: &str, content: Content) -> u64 {
    tree.make(parent, name(text), Meta::new(0o600, 0, 0), content).expect("the name is free")
}

fn write(tree: &mut Tree, node: u64, at: u64, bytes: &[u8]) {
    tree.change(node, Change::Bytes { at, bytes: bytes.to_vec() }).expect("it is a file");
}

fn content(tree: &Tree, text: &str) -> Option<Vec<u8>> {
    tree.read(tree.find(ROOT, name(text)).ok()?, 0, 1 << 20).ok()
}

/// A tree with the durable file `f`, which holds `durable`.
fn with_file() -> (Tree, u64) {
    let mut tree = Tree::new();
    let file = make(&mut tree, ROOT, "f", Content::File(Plain::default()));
    write(&mut tree, file, 0, b"durable");
    tree.sync(file).expect("it is a file");
    tree.sync_names(ROOT).expect("it is a directory");
    (tree, file)
}

fn lose_all(tree: &mut Tree) -> super::Loss {
    tree.lose_as(&BTreeMap::new(), &mut Draw::new(1))
}

#[test]
fn what_was_synced_survives_and_what_was_not_is_gone() {
    let (mut tree, file) = with_file();
    write(&mut tree, file, 3, b"XXXXXXXX");
    assert_eq!(content(&tree, "f").as_deref(), Some(&b"durXXXXXXXX"[..]), "readers see it");
    let loss = lose_all(&mut tree);
    assert_eq!((loss.dropped, loss.kept, loss.torn), (1, 0, 0));
    assert_eq!(content(&tree, "f").as_deref(), Some(&b"durable"[..]));
    assert_eq!(tree.sync(file).map_err(|e| e.code()), Ok(Vec::new()), "nothing is left to sync");
}

#[test]
fn a_name_is_durable_once_its_directory_was_synced_not_its_file() {
    let (mut tree, _) = with_file();
    let other = make(&mut tree, ROOT, "g", Content::File(Plain::default()));
    write(&mut tree, other, 0, b"synced");
    tree.sync(other).expect("it is a file");
    tree.rename(ROOT, name("f"), name("h"), true).expect("nothing is in the way");
    let mut synced = tree.clone();
    let loss = lose_all(&mut tree);
    assert_eq!((loss.names_dropped, loss.names_kept), (2, 0));
    assert_eq!((content(&tree, "g"), content(&tree, "h")), (None, None));
    assert_eq!(content(&tree, "f").as_deref(), Some(&b"durable"[..]));
    synced.sync_names(ROOT).expect("it is a directory");
    lose_all(&mut synced);
    assert_eq!(content(&synced, "g").as_deref(), Some(&b"synced"[..]));
    assert_eq!((content(&synced, "h").is_some(), content(&synced, "f")), (true, None));
}

#[test]
fn a_removed_file_comes_back_unless_its_directory_was_synced() {
    let (mut tree, _) = with_file();
    tree.remove(ROOT, name("f"), false).expect("it is there");
    assert_eq!(content(&tree, "f"), None);
    lose_all(&mut tree);
    assert_eq!(content(&tree, "f").as_deref(), Some(&b"durable"[..]));
    tree.remove(ROOT, name("f"), false).expect("it is there");
    tree.sync_names(ROOT).expect("it is a directory");
    lose_all(&mut tree);
    assert_eq!((content(&tree, "f"), tree.nodes.len()), (None, 1), "and takes no room");
}

#[test]
fn a_directory_whose_name_is_lost_takes_its_files_along() {
    let mut tree = Tree::new();
    let directory = make(&mut tree, ROOT, "d", Content::Directory(Directory::default()));
    let file = make(&mut tree, directory, "f", Content::File(Plain::default()));
    tree.sync(file).expect("it is a file");
    tree.sync_names(directory).expect("it is a directory");
    assert_eq!(tree.nodes.len(), 3);
    lose_all(&mut tree);
    assert_eq!(tree.nodes.len(), 1);
}

#[test]
fn each_change_has_its_own_fate_and_a_torn_write_keeps_whole_sectors() {
    let (mut tree, file) = with_file();
    let durable = |tree: &mut Tree, until| {
        tree.change(file, Change::Length(until)).expect("it is a file");
        tree.sync(file).expect("it is a file");
    };
    durable(&mut tree, 8_192);
    write(&mut tree, file, 0, b"dropped");
    write(&mut tree, file, 7, b"kept");
    write(&mut tree, file, 700, &[7; 4_000]);
    let orders = tree.file(file).map(|file| file.unsynced.iter().map(|c| c.order).collect::<Vec<_>>());
    let orders = orders.expect("it is a file");
    let mut partly = 0;
    for seed in 0..64 {
        let mut tree = tree.clone();
        let fates = BTreeMap::from([(orders[1], Fate::Kept), (orders[2], Fate::Torn)]);
        let loss = tree.lose_as(&fates, &mut Draw::new(seed));
        assert_eq!((loss.kept, loss.dropped, loss.torn), (1, 1, 1));
        let bytes = content(&tree, "f").expect("it is there");
        assert_eq!((&bytes[..11], bytes.len()), (&b"durablekept"[..], 8_192));
        let sevens = bytes.iter().filter(|byte| **byte == 7).count();
        partly += u32::from(sevens > 0 && sevens < 4_000);
        let sectors = bytes.chunks(512).map(|sector| sector.iter().filter(|byte| **byte == 7).count());
        assert!(sectors.skip(2).take(7).all(|n| n == 0 || n == 512), "a sector is whole or untouched");
    }
    assert!(partly > 32, "{partly} of 64 were torn in the middle");
}

#[test]
fn draws_meet_every_manner_and_a_seed_repeats_its_loss() {
    let (mut tree, file) = with_file();
    (0..8).for_each(|at| write(&mut tree, file, at * 512, &[9; 512]));
    let drawn = |seed| {
        let mut tree = tree.clone();
        (tree.lose(&mut Draw::new(seed)), content(&tree, "f"))
    };
    let losses: Vec<_> = (0..64).map(drawn).collect();
    assert!(losses.iter().any(|(loss, _)| loss.dropped == 8));
    assert!(losses.iter().any(|(loss, _)| loss.kept == 8 && !loss.any()));
    assert!(losses.iter().any(|(loss, _)| loss.torn == 1 && loss.kept > 0 && loss.dropped > 0));
    assert!(losses.iter().any(|(loss, _)| loss.torn > 1));
    assert!((0..64).zip(&losses).all(|(seed, loss)| drawn(seed) == *loss));
}

#[test]
fn a_backlog_without_a_sync_is_written_back() {
    let (mut tree, file) = with_file();
    for at in 0..65 {
        write(&mut tree, file, at << 20, &vec![1; 1 << 20]);
    }
    assert!(tree.backlog() <= 64 << 20, "{}", tree.backlog());
    lose_all(&mut tree);
    assert_eq!(tree.file(file).map(|file| file.now.length() > 60 << 20).map_err(|e| e.code()), Ok(true));
}

/// A directory of the test, which goes with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("synod-chaos-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A mount for a test. On a machine without FUSE it checks the refusal instead, and says that the rest did not run.
fn mounted(disk: &Disk, place: &Place) -> Option<Mounted> {
    match Mounted::mount(disk, &place.0) {
        Ok(mounted) => Some(mounted),
        Err(refusal) => {
            assert!(!refusal.cause.is_empty() && refusal.fix.contains("run as root") || available().is_err());
            assert!(refusal.to_string().contains("; "), "{refusal}");
            eprintln!("NOT CHECKED, no file system in user space here: {refusal}");
            None
        }
    }
}

fn create(path: &Path) -> File {
    File::options().read(true).write(true).create_new(true).open(path).expect("a file can be made")
}

/// Takes the mount down after a cut, loses what is lost and mounts again.
fn reboot(mounted: Mounted, place: &Place, draw: &mut Draw) -> (Mounted, super::Loss) {
    let disk = mounted.disk().clone();
    disk.release();
    mounted.unmount().expect("nobody uses it");
    let loss = disk.lose(draw);
    (Mounted::mount(&disk, &place.0).expect("it was mounted before"), loss)
}

#[test]
fn a_mounted_disk_is_a_file_system_and_forgets_at_a_cut_what_was_not_synced() {
    let place = Place::new();
    let Some(mut mount) = mounted(&Disk::empty(), &place) else { return };
    let at = |text: &str| place.0.join(text);
    for seed in 0..24 {
        let _ = fs::remove_file(at("log"));
        let log = create(&at("log"));
        log.write_all_at(b"promise", 0).expect("there is room");
        log.sync_data().expect("the disk works");
        File::open(&place.0).and_then(|directory| directory.sync_all()).expect("the disk works");
        log.write_all_at(b"later", 4_096).expect("there is room");
        fs::write(at("new"), b"x").expect("there is room");
        assert_eq!(log.metadata().map(|found| found.len()).ok(), Some(4_101));
        drop(log);
        mount.disk().off();
        let (again, loss) = reboot(mount, &place, &mut Draw::new(seed));
        mount = again;
        let bytes = fs::read(at("log")).expect("its name was synced");
        assert_eq!(&bytes[..7], b"promise");
        assert_eq!(bytes.len() > 7, loss.kept > 0 && bytes.ends_with(b"later"), "{loss:?}");
        assert_eq!(loss.kept + loss.dropped + loss.torn, 2, "{loss:?}");
        assert_eq!(loss.names_kept + loss.names_dropped, 1, "{loss:?}");
        assert_eq!(at("new").exists(), loss.names_kept == 1);
        let _ = fs::remove_file(at("new"));
        File::open(&place.0).and_then(|directory| directory.sync_all()).expect("the disk works");
    }
}

#[test]
fn directories_renames_and_listings_work_through_a_mount() {
    let place = Place::new();
    let Some(mount) = mounted(&Disk::empty(), &place) else { return };
    fs::create_dir(place.0.join("d")).expect("there is room");
    for n in 0..300 {
        fs::write(place.0.join("d").join(format!("file {n}")), vec![1; n]).expect("there is room");
    }
    fs::rename(place.0.join("d/file 7"), place.0.join("d/file 8")).expect("it may replace a file");
    let listed: Vec<PathBuf> = fs::read_dir(place.0.join("d"))
        .expect("it is there")
        .map(|e| e.expect("it is there").path())
        .collect();
    assert_eq!(listed.len(), 299);
    assert_eq!(fs::read(place.0.join("d/file 8")).map(|bytes| bytes.len()).ok(), Some(7));
    let across = fs::rename(place.0.join("d/file 9"), place.0.join("file 9"));
    assert_eq!(across.map_err(|error| error.kind()), Err(ErrorKind::CrossesDevices));
    let file = create(&place.0.join("big"));
    file.set_len(1 << 26).expect("there is room");
    file.write_all_at(b"end", (1 << 26) - 3).expect("there is room");
    assert_eq!(
        fs::read(place.0.join("big")).map(|bytes| (bytes.len(), bytes.ends_with(b"end"))).ok(),
        Some((1 << 26, true))
    );
    assert!(fs::remove_dir(place.0.join("d")).is_err(), "it is not empty");
    fs::remove_dir_all(place.0.join("d")).expect("it is there");
    drop(file);
    assert!(mount.unmount().is_ok());
}

#[test]
fn faults_give_their_error_and_are_counted() {
    let place = Place::new();
    let Some(mount) = mounted(&Disk::empty(), &place) else { return };
    let disk = mount.disk().clone();
    let file = create(&place.0.join("f"));
    let code = |result: std::io::Result<usize>| result.map_err(|error| error.raw_os_error());
    file.write_all_at(b"12345678", 0).expect("there is room");
    disk.set(Faults { full: true, ..Faults::default() });
    assert_eq!(code(file.write_at(b"x", 0)), Err(Some(28)), "ENOSPC");
    assert!(File::create(place.0.join("g")).is_err());
    disk.set(Faults { eio: Some(Eio::Write), ..Faults::default() });
    assert_eq!(code(file.write_at(b"x", 0)), Err(Some(5)), "EIO");
    disk.set(Faults { short: true, ..Faults::default() });
    assert_eq!(code(file.write_at(b"abcdefgh", 0)), Ok(4));
    disk.set(Faults { slow: Duration::from_millis(3), ..Faults::default() });
    file.sync_data().expect("it is slow, not broken");
    disk.set(Faults::default());
    let hits = disk.hits();
    assert_eq!((hits.full, hits.eio_write, hits.short, hits.slow, hits.eio_sync), (2, 1, 1, 1, 0));
    let syncs = disk.syncs();
    assert_eq!(syncs.len(), 1);
    assert_eq!((syncs[0].file.as_str(), syncs[0].ranges.as_slice()), ("f", &[(0, 8), (0, 4)][..]));
}

#[test]
fn what_a_failed_sync_should_have_made_durable_never_is() {
    let place = Place::new();
    let Some(mount) = mounted(&Disk::empty(), &place) else { return };
    let disk = mount.disk().clone();
    let file = create(&place.0.join("f"));
    file.set_len(16).expect("there is room");
    file.sync_all().expect("the disk works");
    File::open(&place.0).and_then(|directory| directory.sync_all()).expect("the disk works");
    file.write_all_at(b"promise", 0).expect("there is room");
    disk.set(Faults { eio: Some(Eio::Sync), ..Faults::default() });
    assert_eq!(file.sync_data().map_err(|error| error.raw_os_error()), Err(Some(5)));
    disk.set(Faults::default());
    file.sync_data().expect("nothing is left to sync, so it succeeds");
    assert_eq!(fs::read(place.0.join("f")).map(|bytes| bytes.starts_with(b"promise")).ok(), Some(true));
    drop(file);
    disk.off();
    let (_mount, loss) = reboot(mount, &place, &mut Draw::new(1));
    assert_eq!((loss.any(), disk.hits().eio_sync), (false, 1));
    assert_eq!(fs::read(place.0.join("f")).ok(), Some(vec![0; 16]));
}

#[test]
fn the_power_fails_at_the_chosen_operation_and_nobody_is_told_of_it() {
    for (moment, kept) in [(Moment::Before, false), (Moment::After, true)] {
        let place = Place::new();
        let Some(mount) = mounted(&Disk::empty(), &place) else { return };
        let disk = mount.disk().clone();
        let file = create(&place.0.join("f"));
        File::open(&place.0).and_then(|directory| directory.sync_all()).expect("the disk works");
        // One write goes by, then the sync is the operation.
        disk.arm(Cut { skip: 1, moment });
        let user = std::thread::spawn(move || {
            file.write_all_at(b"promise", 0).expect("the power is on");
            file.sync_data().map_err(|error| error.raw_os_error())
        });
        assert!(disk.wait_off(PATIENCE));
        assert!(!user.is_finished(), "the sync was answered");
        assert_eq!(disk.unsynced() == 0, kept);
        disk.release();
        assert_eq!(user.join().expect("it does not panic"), Err(Some(5)));
        mount.unmount().expect("nobody uses it");
        disk.lose(&mut Draw::new(1));
        let lost = fs::read(place.0.join("f"));
        assert!(lost.is_err(), "the mount is gone, and what is below it is empty");
        let _again = Mounted::mount(&disk, &place.0).expect("it was mounted before");
        let bytes = fs::read(place.0.join("f")).expect("its name was synced");
        assert!(!kept || bytes == b"promise", "{bytes:?}");
    }
}

#[test]
fn a_held_sync_is_not_done_until_it_is_let_go_and_others_go_on() {
    let place = Place::new();
    let Some(mount) = mounted(&Disk::empty(), &place) else { return };
    let disk = mount.disk().clone();
    let file = create(&place.0.join("f"));
    file.write_all_at(b"promise", 0).expect("there is room");
    disk.hold_syncs();
    let user = std::thread::spawn(move || file.sync_data().is_ok());
    while disk.held() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(fs::read(place.0.join("f")).ok().as_deref(), Some(&b"promise"[..]), "reads are answered");
    assert_eq!((disk.unsynced(), disk.syncs().len()), (7, 0));
    disk.let_syncs();
    assert!(user.join().expect("it does not panic"));
    assert_eq!((disk.unsynced(), disk.syncs().len()), (0, 1));
}

#[test]
fn a_directory_is_taken_over_and_given_back() {
    let (from, to) = (Place::new(), Place::new());
    fs::create_dir(from.0.join("wal")).expect("there is room");
    let mut bytes = vec![0; 10_000];
    bytes[5_000] = 1;
    fs::write(from.0.join("wal/a"), &bytes).expect("there is room");
    fs::write(from.0.join("VERSION"), b"1\n").expect("there is room");
    let disk = Disk::of(&from.0).expect("it can be read");
    disk.shared.lock().tree.lose_as(&BTreeMap::new(), &mut Draw::new(1));
    disk.export(&to.0).expect("there is room");
    assert_eq!(fs::read(to.0.join("wal/a")).ok(), Some(bytes));
    assert_eq!(fs::read(to.0.join("VERSION")).ok().as_deref(), Some(&b"1\n"[..]));
    for place in [&from, &to] {
        fs::remove_dir_all(&place.0).expect("it is there");
    }
}
