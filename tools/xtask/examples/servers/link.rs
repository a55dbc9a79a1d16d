//! A server process and the socket to it.

use anyhow::{Context as _, ensure};
use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to listen, and to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of this run; it ends with it.
pub(crate) struct Link {
    child: Child,
    stream: RefCell<UnixStream>,
}

impl Link {
    /// Starts `command` and connects to `socket` once it listens.
    pub(crate) fn start(command: &mut Command, socket: &Path) -> anyhow::Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.with_context(|| format!("{command:?} does not start"))?;
        let begun = Instant::now();
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) => {
                    let over = child.try_wait()?;
                    ensure!(over.is_none(), "{command:?} ended: {over:?}");
                    if begun.elapsed() > PATIENCE {
                        child.kill()?;
                        return Err(error)
                            .with_context(|| format!("{} is not listened on", socket.display()));
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { child, stream: RefCell::new(stream) })
    }

    /// Sends bytes, and reads until `next` has taken so many replies from what came. A server that fails ends the process:
    /// nothing can be said of the state behind it.
    pub(crate) fn exchange<R>(
        &self,
        bytes: &[u8],
        count: usize,
        mut next: impl FnMut(usize, &[u8]) -> Option<(R, usize)>,
    ) -> Vec<R> {
        let mut stream = self.stream.borrow_mut();
        let (mut replies, mut held, mut at) = (Vec::new(), Vec::new(), 0);
        let mut piece = vec![0; 64 << 10];
        let mut write = || -> std::io::Result<()> {
            stream.write_all(bytes)?;
            while replies.len() < count {
                while let Some((reply, length)) = next(replies.len(), &held[at..]).filter(|_| at < held.len())
                {
                    replies.push(reply);
                    at += length;
                    if replies.len() == count {
                        return Ok(());
                    }
                }
                let read = stream.read(&mut piece)?;
                if read == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                held.extend_from_slice(&piece[..read]);
            }
            Ok(())
        };
        if let Err(error) = write() {
            eprintln!("servers: a server does not answer: {error}");
            std::process::abort();
        }
        replies
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A server that is gone already is no trouble.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of this run, removed with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(kind: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("synod-{kind}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays for its owner to see.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
