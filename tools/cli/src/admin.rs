//! The admin socket of a node: its operator sends one line and gets one line.
//!
//! A line is `lie on`, `lie off`, `equivocate on`, `equivocate off`, `silence on`, `silence off`, `cut NAME,NAME`,
//! `drop N` (of a thousand frames), `delay N` (ms) or `heal`; the answer is `ok` or `error CODE: message`. Faults exist
//! only in a cluster whose genesis is a drill; elsewhere every line is refused with SYN-3013. The socket has mode 0600, and the user at the other end must be the
//! one that runs the node, or root.
//!
//! *Bounds.* Connections are served one after the other, each for at most 5 s and one line of 8 KiB.

use crate::exit::bug;
use crate::serve::Served;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream as Caller;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use synod_config::{Code, SynError, code};
use synod_host::Drill;
use synod_quorum::{NodeId, NodeSet};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// How long one caller is listened to.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest delay: frames that are held back take memory.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(10);
/// Longest line.
const LINE_MAX: u64 = 8 << 10;

/// What a caller asks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Request {
    Lie(bool),
    Equivocate(bool),
    Silence(bool),
    Cut(Vec<String>),
    Drop(u16),
    Delay(Duration),
    Heal,
}

impl Request {
    fn parse(line: &str) -> Result<Self, SynError> {
        let switch = |word: &str| match word {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        let parsed = match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["lie", word] => switch(word).map(Self::Lie),
            ["equivocate", word] => switch(word).map(Self::Equivocate),
            ["silence", word] => switch(word).map(Self::Silence),
            ["cut", names] => Some(Self::Cut(names.split(',').map(str::to_owned).collect())),
            ["drop", share] => share.parse().ok().filter(|share| *share <= 1_000).map(Self::Drop),
            ["delay", ms] => {
                let delay = ms.parse().ok().map(Duration::from_millis);
                delay.filter(|delay| *delay <= DELAY_MAX).map(Self::Delay)
            }
            ["heal"] => Some(Self::Heal),
            _ => None,
        };
        parsed.ok_or_else(|| crate::session::usage("the admin socket does not know this line"))
    }
}

/// What the socket acts on.
#[derive(Clone)]
pub(crate) struct Subject {
    /// The node's faults; `None` unless the genesis is a drill.
    pub(crate) drill: Option<Arc<Drill>>,
    /// The members, in the order of the genesis.
    pub(crate) members: Vec<String>,
}

impl Subject {
    fn obey(&self, line: &str) -> Result<(), SynError> {
        let Some(drill) = &self.drill else {
            return Err(SynError::of(code::NOT_PERMITTED, &[("what", "fault injection")]));
        };
        match Request::parse(line)? {
            Request::Lie(on) => drill.lie(on),
            Request::Equivocate(on) => drill.equivocate(on),
            Request::Silence(on) => drill.silence(on),
            Request::Cut(names) => drill.cut(self.set(&names)?),
            Request::Drop(share) => drill.drop_share(share),
            Request::Delay(by) => drill.delay(by),
            Request::Heal => {
                drill.lie(false);
                drill.equivocate(false);
                drill.silence(false);
                drill.cut(NodeSet::EMPTY);
                drill.drop_share(0);
                drill.delay(Duration::ZERO);
            }
        }
        tracing::warn!(fault = line, "a fault was injected or healed");
        Ok(())
    }

    fn set(&self, names: &[String]) -> Result<NodeSet, SynError> {
        let find = |name: &String| {
            let mut members = (0_u32..).zip(&self.members);
            let found = members.find_map(|(id, member)| (member == name).then_some(NodeId(id)));
            found.ok_or_else(|| crate::session::usage(&format!("{name:?} is no member")))
        };
        names.iter().map(find).collect()
    }
}

/// The socket, served in the background; its file goes with the value.
pub(crate) struct Admin {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Admin {
    /// The socket of the operator of a node whose directory is `folder`, where it is on.
    ///
    /// # Errors
    /// SYN-1101 if the socket cannot be made.
    pub(crate) fn of(
        served: &Served,
        folder: &Path,
        socket: Option<&Path>,
    ) -> Result<Option<Self>, SynError> {
        let Some(socket) = socket else { return Ok(None) };
        let subject = served.node.with(|server| Subject {
            drill: server.drill().cloned(),
            members: server.genesis().members().iter().map(|member| member.name.clone()).collect(),
        });
        subject.map(|subject| Self::serve(&folder.join(socket), subject)).transpose()
    }

    /// Listens at `path`. What is left there of an earlier process is replaced: the journal's lock says that no other
    /// process runs this node.
    ///
    /// # Errors
    /// SYN-1101 if the socket cannot be made.
    pub(crate) fn serve(path: &Path, subject: Subject) -> Result<Self, SynError> {
        let refused = |error: std::io::Error| crate::cluster::unwritable(path, &error);
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(refused)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(refused)?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A caller that is slow or gone is left for the next.
                let _ = tokio::time::timeout(PATIENCE, answer(stream, &subject)).await;
            }
        });
        Ok(Self { path: path.to_owned(), task })
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.task.abort();
        // The next start removes what is left.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(stream: UnixStream, subject: &Subject) -> std::io::Result<()> {
    let caller = stream.peer_cred()?.uid();
    let own = rustix::process::geteuid().as_raw();
    let mut stream = BufReader::new(stream);
    let said = if caller != own && caller != 0 {
        Err(SynError::of(code::NOT_PERMITTED, &[("what", "the admin socket of another user's node")]))
    } else {
        let mut line = String::new();
        (&mut stream).take(LINE_MAX).read_line(&mut line).await?;
        subject.obey(line.trim())
    };
    let text = match said {
        Ok(()) => "ok\n".to_owned(),
        Err(error) => format!("error {}: {}\n", error.code(), error.message()),
    };
    stream.get_mut().write_all(text.as_bytes()).await
}

/// Sends one line to the node whose socket is at `path`.
///
/// # Errors
/// SYN-2001 if nobody listens there, SYN-2003 if nobody answers, and what the node refuses with.
pub(crate) fn ask(path: &Path, line: &str) -> Result<(), SynError> {
    let shown = path.display().to_string();
    let silent = |error: std::io::Error| {
        SynError::of(code::NO_ANSWER, &[("address", &shown), ("stage", "admin")]).because(error)
    };
    let mut stream = Caller::connect(path)
        .map_err(|error| SynError::of(code::REFUSED, &[("address", &shown)]).because(error))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(silent)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(silent)?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(silent)?;
    let mut text = String::new();
    std::io::Read::by_ref(&mut stream).take(LINE_MAX).read_to_string(&mut text).map_err(silent)?;
    understood(text.trim_end())
}

fn understood(text: &str) -> Result<(), SynError> {
    if text == "ok" {
        return Ok(());
    }
    let refused = text.strip_prefix("error ").and_then(|rest| rest.split_once(": "));
    match refused.and_then(|(code, message)| Some((Code::parse(code)?, message))) {
        Some((code, message)) => Err(SynError::with_message(code, message)),
        None => Err(bug("admin socket", &format!("it answered {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(drill: bool) -> Subject {
        let members = ["n0", "n1", "n2"].map(str::to_owned).to_vec();
        Subject { drill: drill.then(Arc::default), members }
    }

    /// Sends `line` to a socket of its own.
    fn through_a_socket(name: &str, subject: Subject, line: &'static str) -> Result<(), SynError> {
        let path = std::env::temp_dir().join(format!("synod-admin-{name}-{}", std::process::id()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let asked = runtime.expect("a runtime starts").block_on(async {
            let admin = Admin::serve(&path, subject).expect("the socket is made");
            let mode = std::fs::metadata(&path).expect("it exists").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let to = path.clone();
            let asked = tokio::task::spawn_blocking(move || ask(&to, line)).await.expect("it ends");
            drop(admin);
            asked
        });
        assert!(!path.exists(), "the socket goes with the node");
        asked
    }

    #[test]
    fn a_drill_obeys_and_any_other_cluster_refuses() {
        assert_eq!(through_a_socket("drill", subject(true), "lie on"), Ok(()));
        let refused = through_a_socket("real", subject(false), "lie on").expect_err("it is no drill");
        assert_eq!(refused.code(), code::NOT_PERMITTED);
        let refused = through_a_socket("wrong", subject(true), "lie perhaps").expect_err("no such line");
        assert_eq!(refused.code(), code::BAD_USAGE);
    }

    #[test]
    fn lines_are_read_strictly() {
        let both = vec!["n0".to_owned(), "n2".to_owned()];
        for (line, wanted) in [
            ("lie on", Some(Request::Lie(true))),
            ("equivocate on", Some(Request::Equivocate(true))),
            ("silence off", Some(Request::Silence(false))),
            ("cut n0,n2", Some(Request::Cut(both))),
            ("drop 1000", Some(Request::Drop(1_000))),
            ("delay 10000", Some(Request::Delay(DELAY_MAX))),
            ("heal", Some(Request::Heal)),
            ("delay 10001", None),
            ("drop 1001", None),
            ("heal now", None),
            ("", None),
        ] {
            assert_eq!(Request::parse(line).ok(), wanted, "{line:?}");
        }
    }

    #[test]
    fn names_become_members_or_are_refused() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let set = subject(true).set(&names(&["n2", "n0"])).expect("they are members");
        assert_eq!(set.iter().collect::<Vec<_>>(), [NodeId(0), NodeId(2)]);
        assert!(subject(true).set(&names(&["n9"])).is_err());
    }
}
