//! Descriptors between processes: what is refused, with which error, and that nothing is left open.
//!
//! One test, for it counts the descriptors of its process.

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use synod_shm::{Agreed, Error, Hand, Kind, Label, Memfd, hand, see};

const LABEL: Label = Label { kind: Kind::Ring, node: 2, queue: 3, epoch: 4, words: 8, boot: 5 };
const BYTES: [u8; 24] = [1, 3, 3, 0, 2, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

/// What a peer of any kind may send.
fn raw(to: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    assert!(descriptors.is_empty() || rights.push(SendAncillaryMessage::ScmRights(descriptors)));
    rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut rights, SendFlags::empty()).expect("sent");
}

fn taken(bytes: &[u8], count: usize) -> Result<(Label, Option<OwnedFd>), Error> {
    let (near, far) = hand::pair().expect("a pair");
    let near = Hand::over(near, me()).expect("this user");
    let memory = Memfd::create("test", 8).expect("memory");
    raw(&far, bytes, &vec![memory.as_fd(); count]);
    near.take()
}

fn with(at: usize, byte: u8) -> [u8; 24] {
    let mut bytes = BYTES;
    bytes[at] = byte;
    bytes
}

fn messages() {
    let (label, descriptor) = taken(&BYTES, 1).expect("a message");
    assert_eq!((label, descriptor.is_some()), (LABEL, true));
    assert!(matches!(taken(&BYTES[..23], 1), Err(Error::Length { wanted: 24, found: 23 })));
    assert!(matches!(taken(&[BYTES.as_slice(), &[0]].concat(), 1), Err(Error::Length { found: 25, .. })));
    assert!(matches!(taken(&[], 0), Err(Error::Closed)));
    assert!(matches!(taken(&with(0, 2), 1), Err(Error::Version { wanted: 1, found: 2 })));
    assert!(matches!(taken(&with(1, 0), 1), Err(Error::Malformed)));
    assert!(matches!(taken(&with(1, 14), 1), Err(Error::Malformed)));
    assert!(matches!(taken(&BYTES, 0), Err(Error::Descriptors { wanted: 1, found: 0 })));
    assert!(matches!(taken(&BYTES, 2), Err(Error::Descriptors { wanted: 1, found: 2 })));
    assert!(matches!(taken(&BYTES, 8), Err(Error::Descriptors { wanted: 1, .. })));
    assert!(matches!(taken(&with(1, 6), 1), Err(Error::Descriptors { wanted: 0, found: 1 })));
    assert!(matches!(taken(&with(1, 6), 0), Ok((Label { kind: Kind::Mapped, .. }, None))));
}

fn connections() {
    let (near, far) = hand::pair().expect("a pair");
    assert!(matches!(Hand::over(far, me() + 1), Err(Error::Peer { .. })));
    let near = Hand::over(near, me()).expect("this user");
    assert!(matches!(near.take(), Err(Error::Closed)));
    let (near, far) = hand::pair().expect("a pair");
    let (near, far) = (Hand::over(near, me()).expect("a hand"), Hand::over(far, me()).expect("a hand"));
    let memory = Memfd::create("test", 8).expect("memory");
    assert!(matches!(near.say(&LABEL), Err(Error::Descriptors { wanted: 1, found: 0 })));
    let mapped = Label { kind: Kind::Mapped, ..LABEL };
    assert!(matches!(near.give(&mapped, memory.as_fd()), Err(Error::Descriptors { wanted: 0, found: 1 })));
    near.give(&LABEL, memory.reader().expect("a reader").as_fd()).expect("given");
    let (label, descriptor) = far.take().expect("a message");
    let agreed = Agreed { words: label.words, uid: me() };
    assert_eq!(see(descriptor.expect("one"), agreed).expect("as agreed").count(), 8);
}

fn memory_with(seals: SealFlags, bytes: u64, mode: u32) -> OwnedFd {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let fd = rustix::fs::memfd_create("test", flags).expect("memory");
    rustix::fs::fchmod(&fd, rustix::fs::Mode::from_raw_mode(mode)).expect("a mode");
    rustix::fs::ftruncate(&fd, bytes).expect("a size");
    rustix::fs::fcntl_add_seals(&fd, seals).expect("seals");
    fd
}

fn memory() {
    let (all, page) = (SealFlags::SHRINK | SealFlags::GROW, rustix::param::page_size() as u64);
    let agreed = Agreed { words: 8, uid: me() };
    let refused = |fd| see(fd, agreed).expect_err("not as agreed");
    assert!(see(memory_with(all, page, 0o600), agreed).is_ok());
    for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::GROW] {
        assert!(matches!(refused(memory_with(seals, page, 0o600)), Error::Unsealed));
    }
    for bytes in [0, 64, page - 1, page + 1, 2 * page] {
        assert!(matches!(refused(memory_with(all, bytes, 0o600)), Error::Size { .. }), "{bytes}");
    }
    assert!(matches!(refused(memory_with(all, page, 0o620)), Error::Mode { mode: 0o620 }));
    let other = Agreed { uid: me() + 1, ..agreed };
    assert!(matches!(see(memory_with(all, page, 0o600), other), Err(Error::Owner { .. })));
    assert!(matches!(Memfd::create("test", 0), Err(Error::Words { words: 0 })));
    let (socket, _far) = hand::pair().expect("a pair");
    assert!(matches!(refused(socket), Error::NoMemory));
    let path = std::env::temp_dir().join(format!("synod-shm-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("a file");
    file.write_all(&vec![0; 4096]).expect("written");
    std::fs::remove_file(&path).expect("the file is ours");
    assert!(matches!(refused(file.into()), Error::NoMemory | Error::Unsealed));
}

#[test]
fn what_is_not_as_agreed_is_refused_with_its_reason_and_nothing_stays_open() {
    let before = open();
    messages();
    connections();
    memory();
    assert_eq!(open(), before);
}
