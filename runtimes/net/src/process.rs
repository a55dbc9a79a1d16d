//! A server process of this machine that this process alone speaks to: bytes over a Unix socket.
//!
//! *Life.* It is started in a folder of its own, which is emptied before. It ends with its owner: it is killed when the owner is dropped,
//! and by the system when the thread that started it ends, however that ends (`setpriv --pdeathsig`). So it is to be started by the thread
//! that speaks to it.
//!
//! *Bounds.* One exchange at a time; what is read is kept until its replies are whole, so the reader of a reply says how long one may
//! be. A server that says nothing for [`PATIENCE`] has failed.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::Error;

/// How long a server may take to listen, and to say the next byte of an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it is left alone between two looks whether it listens.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// What it is reached by, in its folder.
const SOCKET: &str = "server.sock";
/// What it says, in its folder.
const LOG: &str = "server.log";
/// What ties a process to the thread that started it.
const TETHER: (&str, &str) = ("setpriv", "util-linux");

/// What is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name in PATH.
    pub name: &'static str,
    /// The package that has it.
    pub package: &'static str,
    /// Its arguments; `{socket}` stands for where it has to listen.
    pub arguments: Vec<String>,
    /// Arguments that are added where this process is root's.
    pub when_root: Vec<String>,
}

/// A running server, and the connection to it.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    name: &'static str,
    stream: UnixStream,
    /// What one read takes.
    piece: Box<[u8]>,
    held: Vec<u8>,
}

impl ServerProcess {
    /// Starts the program in `folder`, which is emptied, and connects to it.
    ///
    /// # Errors
    /// [`Error::ProgramMissing`] where it is not installed, [`Error::ServerProcess`] where it does not start or listen.
    pub fn start(program: &Program, folder: &Path) -> Result<Self, Error> {
        let failed = |why: String| Error::ServerProcess { program: program.name, why };
        Self::is_installed(program.name, program.package)?;
        let unusable = |error: std::io::Error| failed(format!("{}: {error}", folder.display()));
        empty(folder).map_err(unusable)?;
        let log = File::create(folder.join(LOG)).map_err(unusable)?;
        let said = log.try_clone().map_err(unusable)?;
        let mut command = Command::new(TETHER.0);
        command.args(["--pdeathsig", "KILL", "--", program.name]);
        command.args(program.arguments.iter().map(|argument| argument.replace("{socket}", SOCKET)));
        if rustix::process::geteuid().is_root() {
            command.args(&program.when_root);
        }
        command.current_dir(folder).stdin(Stdio::null()).stdout(log).stderr(said);
        let mut child = command.spawn().map_err(|error| failed(format!("it does not start: {error}")))?;
        match connect(&mut child, folder) {
            Ok(stream) => {
                Ok(Self { child, name: program.name, stream, piece: vec![0; PIECE].into(), held: Vec::new() })
            }
            Err(why) => {
                end(&mut child);
                Err(failed(format!("{why}; see {}", folder.join(LOG).display())))
            }
        }
    }

    /// Whether a program, and what ties it to its owner, is there.
    ///
    /// # Errors
    /// [`Error::ProgramMissing`] with the package that has what is missing.
    pub fn is_installed(name: &'static str, package: &'static str) -> Result<(), Error> {
        for (program, package) in [(name, package), TETHER] {
            if find(program).is_none() {
                return Err(Error::ProgramMissing { program, package });
            }
        }
        Ok(())
    }

    /// Its number in the system.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends bytes, and reads until `next` has taken `count` replies from what came: it gets which reply is next and what is there, and
    /// gives the reply and its length, or `None` while more has to come.
    ///
    /// # Errors
    /// [`Error::ServerProcess`] when the server is gone, silent, or says what is no reply. Nothing can be said of its state then.
    pub fn exchange<R, E>(
        &mut self,
        bytes: &[u8],
        count: usize,
        mut next: impl FnMut(usize, &[u8]) -> Result<Option<(R, usize)>, E>,
    ) -> Result<Vec<R>, Error> {
        let name = self.name;
        let failed = |why: String| Error::ServerProcess { program: name, why };
        let lost = |error: std::io::Error| failed(format!("it does not answer: {error}"));
        self.stream.write_all(bytes).map_err(lost)?;
        let (mut replies, mut at) = (Vec::with_capacity(count), 0);
        self.held.clear();
        while replies.len() < count {
            let read = match self.stream.read(&mut self.piece) {
                Ok(0) => return Err(failed("it ended".to_owned())),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(lost(error)),
            };
            self.held.extend_from_slice(self.piece.get(..read).unwrap_or_default());
            while replies.len() < count {
                let rest = self.held.get(at..).unwrap_or_default();
                let taken =
                    next(replies.len(), rest).map_err(|_| failed("it said what is no reply".to_owned()))?;
                let Some((reply, length)) = taken else { break };
                replies.push(reply);
                at += length;
            }
        }
        if at != self.held.len() {
            return Err(failed("it said more than it was asked".to_owned()));
        }
        if self.held.capacity() > 16 * PIECE {
            self.held = Vec::new();
        }
        Ok(replies)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills a process and lets the system forget it. One that is gone already is no trouble.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Where a program is, of the directories of PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

fn empty(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Connects once the server listens.
fn connect(child: &mut Child, folder: &Path) -> Result<UnixStream, String> {
    // The address of a socket is short, and a folder may be deep: it is named by its descriptor.
    let opened = File::open(folder).map_err(|error| error.to_string())?;
    let socket = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
    let begun = Instant::now();
    loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => {
                let limits =
                    [stream.set_read_timeout(Some(PATIENCE)), stream.set_write_timeout(Some(PATIENCE))];
                limits.into_iter().collect::<Result<(), _>>().map_err(|error| error.to_string())?;
                return Ok(stream);
            }
            Err(error) => {
                if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                    return Err(format!("it ended at once ({status})"));
                }
                if begun.elapsed() > PATIENCE {
                    return Err(format!("it does not listen: {error}"));
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: Program =
        Program { name: "no-such-server", package: "nobody's", arguments: Vec::new(), when_root: Vec::new() };

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("synod-process-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_program_that_is_not_installed_is_named_with_its_package() {
        let folder = Folder::new("missing");
        let error = ServerProcess::start(&MISSING, &folder.0).expect_err("nobody has it");
        assert_eq!(error.code(), 1_205);
        assert!(error.to_string().contains("no-such-server, of the package nobody's"), "{error}");
        assert!(!folder.0.exists(), "nothing was made for it");
    }

    #[test]
    fn a_program_that_ends_instead_of_listening_is_told_with_its_log() {
        let folder = Folder::new("ends");
        let arguments = vec!["-c".to_owned(), "exit 3".to_owned()];
        let program = Program { name: "sh", package: "dash", arguments, when_root: Vec::new() };
        let error = ServerProcess::start(&program, &folder.0).expect_err("it does not listen");
        assert_eq!(error.code(), 1_206);
        assert!(error.to_string().contains("it ended at once (exit status: 3)"), "{error}");
        assert!(error.to_string().contains(LOG), "{error}");
    }
}
