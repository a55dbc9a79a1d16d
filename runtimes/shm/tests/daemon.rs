//! A memory node hands a region to its owner and to a reader, through a door.

use std::os::fd::AsFd;
use std::thread;

use synod_shm::{Agreed, Door, Error, Hand, Kind, Label, Memfd, see};
use synod_tail::Words;

#[test]
fn an_owner_maps_its_region_confirms_and_a_reader_sees_what_it_writes() {
    let uid = rustix::process::geteuid().as_raw();
    let path = std::env::temp_dir().join(format!("synod-shm-door-{}", std::process::id()));
    let door = Door::bind(&path).expect("a door");
    let own = Label { kind: Kind::Own, node: 1, queue: 0, epoch: 0, words: 8, boot: 1 };
    let daemon = thread::spawn(move || {
        let (caller, found) = door.accept().expect("a caller");
        assert_eq!(found, uid);
        let memory = Memfd::create("region", 8).expect("memory");
        caller.give(&own, memory.as_fd()).expect("given");
        let (mapped, nothing) = caller.take().expect("a word");
        assert!(mapped.kind == Kind::Mapped && nothing.is_none());
        memory.close().expect("closed");
        let reader = memory.reader().expect("a reader");
        caller.give(&Label { kind: Kind::Region, ..own }, reader.as_fd()).expect("given");
    });
    let hand = Hand::connect(&path, uid).expect("connected");
    std::fs::remove_file(&path).expect("the path is ours");
    let (label, descriptor) = hand.take().expect("a region");
    assert_eq!(label, own);
    let agreed = Agreed { words: 8, uid };
    let memory = Memfd::adopt(descriptor.expect("one"), agreed).expect("as agreed");
    let written = memory.map().expect("mapped");
    hand.say(&Label { kind: Kind::Mapped, ..own }).expect("said");
    let (label, descriptor) = hand.take().expect("a region");
    assert_eq!(label.kind, Kind::Region);
    assert!(matches!(memory.map(), Err(Error::System { call: "mmap", .. })), "closed for writing");
    let shown = see(descriptor.expect("one"), agreed).expect("as agreed");
    written.store(7, 5);
    assert_eq!((shown.load(7), shown.count(), memory.words()), (5, 8, 8));
    daemon.join().expect("it ends");
}
