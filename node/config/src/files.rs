//! Reading and writing small files: bounded, never through a link where it matters, never half written.

use crate::errors::{Code, SynError, code};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use zeroize::Zeroizing;

/// A path as messages show it.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// An error about a file, caused by the system.
pub(crate) fn failed(code: Code, path: &Path, error: impl std::fmt::Display) -> SynError {
    let name = shown(path);
    SynError::of(code, &[("file", &name), ("path", &name)]).because(error)
}

/// Reads at most `max` bytes of UTF-8; anything longer or other is refused without reading on.
pub(crate) fn read_text(path: &Path, max: usize) -> Result<String, SynError> {
    let unreadable = |error: &dyn std::fmt::Display| failed(code::CONFIG_UNREADABLE, path, error);
    let mut file = File::open(path).map_err(|error| unreadable(&error))?;
    let bytes = read_bounded(&mut file, max).map_err(|error| unreadable(&error))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| unreadable(&error))?;
    Ok(text.to_owned())
}

/// Reads a whole file of at most `max` bytes into a buffer that is wiped when dropped and never grows, so that
/// no stale copy of a secret stays behind.
pub(crate) fn read_bounded(file: &mut File, max: usize) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut buffer = Zeroizing::new(vec![0; max.saturating_add(1)]);
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            count => filled += count,
        }
    }
    if filled > max {
        return Err(std::io::Error::other(format!("the file is longer than {max} bytes")));
    }
    buffer.truncate(filled);
    Ok(buffer)
}

/// Writes a file that must not exist yet, with exactly `mode`, synced together with its directory.
///
/// # Errors
/// SYN-1109 if something stands at the path, links included; SYN-1101 if the system refuses.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: Mode) -> Result<(), SynError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, mode);
    let descriptor = opened.map_err(|error| {
        let code = if error == rustix::io::Errno::EXIST {
            code::ALREADY_INITIALISED
        } else {
            code::CONFIG_UNREADABLE
        };
        failed(code, path, error)
    })?;
    // The mask of the process may have taken bits away; a later start would then refuse the file.
    rustix::fs::fchmod(&descriptor, mode).map_err(|error| failed(code::CONFIG_UNREADABLE, path, error))?;
    let mut file = File::from(descriptor);
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| sync_directory(path));
    written.map_err(|error| {
        // A half-written file would be refused at the next start; better that there is none.
        drop(std::fs::remove_file(path));
        failed(code::CONFIG_UNREADABLE, path, error)
    })
}

/// Replaces a file as one step: a reader sees the old or the new content.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: Mode) -> Result<(), SynError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    drop(std::fs::remove_file(&temporary));
    write_new(&temporary, bytes, mode)?;
    let renamed = std::fs::rename(&temporary, path).and_then(|()| sync_directory(path));
    renamed.map_err(|error| {
        drop(std::fs::remove_file(&temporary));
        failed(code::CONFIG_UNREADABLE, path, error)
    })
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
pub(crate) mod scratch {
    //! A directory of one test, removed with it.

    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    static NEXT: AtomicU32 = AtomicU32::new(0);

    /// A fresh directory.
    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Self {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("synod-config-{}-{number}", std::process::id()));
            std::fs::create_dir_all(&path).expect("the directory for temporary files is writable");
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::scratch::Scratch;
    use super::*;

    #[test]
    fn a_file_above_its_limit_is_refused_by_its_code() {
        let scratch = Scratch::new();
        let path = scratch.path().join("file");
        for (size, fits) in [(9, true), (10, true), (11, false)] {
            std::fs::write(&path, vec![b'a'; size]).expect("the file is written");
            match read_text(&path, 10) {
                Ok(text) => assert!(fits && text.len() == size),
                Err(error) => assert!(!fits && error.code() == code::CONFIG_UNREADABLE),
            }
        }
        std::fs::write(&path, [0xff, 0xfe]).expect("the file is written");
        assert_eq!(read_text(&path, 10).map_err(|error| error.code()), Err(code::CONFIG_UNREADABLE));
    }

    #[test]
    fn a_new_file_never_overwrites_not_even_through_a_dangling_link() {
        let scratch = Scratch::new();
        let (path, link) = (scratch.path().join("file"), scratch.path().join("link"));
        write_new(&path, b"one", Mode::RUSR).expect("nothing stands there");
        std::os::unix::fs::symlink(scratch.path().join("absent"), &link).expect("the link is made");
        for taken in [&path, &link] {
            let refusal = write_new(taken, b"two", Mode::RUSR).map_err(|error| error.code());
            assert_eq!(refusal, Err(code::ALREADY_INITIALISED));
        }
        assert_eq!(std::fs::read(&path).expect("it is still there"), b"one");
        assert!(!scratch.path().join("absent").exists());
    }

    #[test]
    fn replacing_leaves_the_new_content_and_nothing_else() {
        let scratch = Scratch::new();
        let path = scratch.path().join("file");
        for content in [b"one".as_slice(), b"two"] {
            replace(&path, content, Mode::RUSR | Mode::WUSR).expect("the directory is writable");
            assert_eq!(std::fs::read(&path).expect("it exists"), content);
        }
        assert_eq!(std::fs::read_dir(scratch.path()).expect("it is readable").count(), 1);
    }
}
