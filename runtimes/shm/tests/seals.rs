//! T14: memory that was handed out cannot be resized, opened anew for writing, made writable or opened to others.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use synod_shm::{Memfd, Written};

/// Tries to map `fd`, and to make that mapping writable; gives what the system said.
fn mapped(fd: &OwnedFd, protection: ProtFlags, then: Option<MprotectFlags>) -> Result<(), Errno> {
    let (bytes, none) = (rustix::param::page_size(), std::ptr::null_mut());
    // SAFETY: a new mapping that nobody reads or writes through.
    #[expect(unsafe_code, reason = "the attack itself")]
    let start = unsafe { rustix::mm::mmap(none, bytes, protection, MapFlags::SHARED, fd, 0) }?;
    // SAFETY: the mapping made above, which nobody reads or writes through.
    #[expect(unsafe_code, reason = "the attack itself")]
    let done = then.map_or(Ok(()), |flags| unsafe { rustix::mm::mprotect(start, bytes, flags) });
    // SAFETY: the mapping made above is unmapped once.
    #[expect(unsafe_code, reason = "the attack itself")]
    unsafe { rustix::mm::munmap(start, bytes) }?;
    done
}

fn reopened(fd: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty())
}

fn memory() -> (Memfd, Written, OwnedFd) {
    let memory = Memfd::create("test", 8).expect("memory");
    let (written, reader) = (memory.map().expect("mapped"), memory.reader().expect("a reader"));
    (memory, written, reader)
}

/// Set in the process of another user.
const CHILD: &str = "SYNOD_SHM_CHILD";
const BOTH: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

#[test]
fn a_descriptor_for_reading_writes_nothing_before_the_owner_has_mapped_and_after() {
    let (memory, _written, reader) = memory();
    for closed in [false, true] {
        if closed {
            memory.close().expect("closed");
        }
        assert_eq!(mapped(&reader, BOTH, None), Err(Errno::ACCESS));
        assert_eq!(mapped(&reader, ProtFlags::READ, Some(MprotectFlags::WRITE)), Err(Errno::ACCESS));
        assert_eq!(rustix::io::write(&reader, &[1]), Err(Errno::BADF));
        assert!(rustix::fs::ftruncate(&reader, 0).is_err());
        assert_eq!(mapped(&reader, ProtFlags::READ, None), Ok(()));
    }
}

#[test]
fn a_descriptor_for_writing_resizes_nothing_and_once_closed_writes_nothing() {
    let (memory, _written, _) = memory();
    let fd = memory.as_fd().try_clone_to_owned().expect("a copy");
    for size in [0, 1 << 20] {
        assert_eq!(rustix::fs::ftruncate(&fd, size), Err(Errno::PERM));
    }
    assert_eq!(mapped(&fd, BOTH, None), Ok(()));
    memory.close().expect("closed");
    assert_eq!(mapped(&fd, BOTH, None), Err(Errno::PERM));
    assert_eq!(mapped(&fd, ProtFlags::READ, Some(MprotectFlags::WRITE)), Err(Errno::ACCESS));
    assert_eq!(rustix::io::write(&fd, &[1]), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(&fd, SealFlags::WRITE), Err(Errno::PERM));
    assert!(memory.map().is_err() && memory.close().is_err());
    // The user that made it opens it anew, and gains nothing.
    let again = reopened(&fd, OFlags::RDWR).expect("its own");
    assert_eq!(mapped(&again, BOTH, None), Err(Errno::PERM));
}

/// The part of another user, run in a process of its own with a descriptor for reading as its standard input.
fn attack_as_another_user() {
    let reader = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    assert_ne!(rustix::fs::fstat(&reader).expect("a file").st_uid, rustix::process::geteuid().as_raw());
    for flags in [OFlags::RDWR, OFlags::WRONLY, OFlags::RDWR | OFlags::TRUNC] {
        assert_eq!(reopened(&reader, flags).expect_err("not its own"), Errno::ACCESS);
    }
    assert_eq!(rustix::fs::fchmod(&reader, Mode::from_raw_mode(0o666)), Err(Errno::PERM));
    assert!(rustix::fs::ftruncate(&reader, 0).is_err());
    assert_eq!(mapped(&reader, BOTH, None), Err(Errno::ACCESS));
    assert_eq!(mapped(&reader, ProtFlags::READ, Some(MprotectFlags::WRITE)), Err(Errno::ACCESS));
    assert!(rustix::fs::fcntl_add_seals(&reader, SealFlags::WRITE).is_err());
    assert_eq!(mapped(&reader, ProtFlags::READ, None), Ok(()));
}

#[test]
fn another_user_cannot_write_what_it_was_shown() {
    if std::env::var_os(CHILD).is_some() {
        return attack_as_another_user();
    }
    if !rustix::process::geteuid().is_root() {
        println!("not root: no other user to be");
        return;
    }
    let (_memory, _written, reader) = memory();
    let own = std::env::current_exe().expect("this test");
    let mut child = Command::new(own);
    child
        .args(["--exact", "another_user_cannot_write_what_it_was_shown"])
        .env(CHILD, "1")
        .stdout(Stdio::piped());
    let ran = child.stdin(reader).uid(65_534).gid(65_534).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
