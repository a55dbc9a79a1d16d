//! One connection: what has come is asked in one call, and answered, before more is read.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use synod_config::{Code, code, explain};
use synod_host::{Call, Mode, Operation, Outcome};
use synod_memcached_adapter::check;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::{
    budget::Share,
    shared::{Shared, backend_deadline},
    text::frame::{COMMANDS_MAX, Framed, frame},
    traffic::Api,
};

/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;
/// How long a command may take to arrive, and replies to be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection that was ended here waits for its client to close too.
const LINGER: Duration = Duration::from_secs(1);

/// What a command is answered with: known at once, or by the cluster.
enum Due {
    Known(Vec<u8>),
    Asked,
}

/// A command's reply to come, and whether anybody waits for it.
struct Owed {
    due: Due,
    is_quiet: bool,
}

pub(super) struct Client {
    pub(super) stream: TcpStream,
    pub(super) share: Share,
    pub(super) shared: Shared,
    pub(super) deadline: Duration,
    pub(super) held: BytesMut,
}

impl Client {
    /// Serves until the client, a limit or the listener's stop ends it.
    pub(super) async fn run(mut self) {
        let stopped = self.shared.stop.clone().stopped();
        tokio::pin!(stopped);
        // Since when a command has been arriving.
        let mut begun = None;
        loop {
            let is_over = match self.serve().await {
                Ok(is_over) => is_over,
                Err(_) => return,
            };
            if is_over {
                return self.close().await;
            }
            if self.held.is_empty() {
                // What a long value needed goes with it.
                self.held = BytesMut::new();
            }
            let bytes = (self.held.len() + READ_BYTES) as u64;
            if !self.share.reserve(bytes) && !self.share.wait(bytes).await {
                return self.shared.traffic.cut();
            }
            self.held.reserve(READ_BYTES);
            // A command that has begun has to arrive; a client that says nothing may stay.
            begun = if self.held.is_empty() { None } else { begun.or_else(|| Some(Instant::now())) };
            let patience = begun.map_or(Duration::MAX, |begun| PATIENCE.saturating_sub(begun.elapsed()));
            let read = tokio::select! {
                () = &mut stopped => return self.close().await,
                () = self.share.evicted() => return self.shared.traffic.cut(),
                read = timeout(patience, self.stream.read_buf(&mut self.held)) => read,
            };
            match read {
                Ok(Ok(0) | Err(_)) => return,
                Ok(Ok(_)) => self.share.settle(self.held.capacity() as u64),
                Err(_) => return self.shared.traffic.cut(),
            }
        }
    }

    /// Answers every whole command that has come; whether the connection ends.
    async fn serve(&mut self) -> io::Result<bool> {
        loop {
            let (mut owed, mut operations, mut is_over) = (Vec::new(), Vec::new(), false);
            while owed.len() < COMMANDS_MAX && !is_over {
                match frame(&self.held) {
                    Ok(None) => break,
                    Ok(Some(framed)) => {
                        self.held.advance(framed.length);
                        is_over = framed.is_last;
                        if !is_over {
                            owed.push(take(framed, &mut operations));
                        }
                    }
                    Err(refused) => {
                        is_over = true;
                        owed.push(Owed { due: Due::Known(refused.0.as_bytes().to_vec()), is_quiet: false });
                    }
                }
            }
            let is_done = owed.len() < COMMANDS_MAX || is_over;
            let replies = self.ask(operations).await;
            let mut out = Vec::new();
            let mut replies = replies.into_iter();
            for Owed { due, is_quiet } in owed {
                let reply = match due {
                    Due::Known(reply) => reply,
                    Due::Asked => replies.next().unwrap_or_else(|| unknown(&self.shared)),
                };
                if !is_quiet {
                    out.extend_from_slice(&reply);
                }
            }
            match timeout(PATIENCE, self.stream.write_all(&out)).await {
                Ok(written) => written?,
                Err(_) => {
                    self.shared.traffic.cut();
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            if is_done {
                return Ok(is_over);
            }
        }
    }

    /// Asks the cluster; one reply for each operation, in order.
    async fn ask(&self, operations: Vec<Operation>) -> Vec<Vec<u8>> {
        if operations.is_empty() {
            return Vec::new();
        }
        let (count, begun) = (operations.len(), Instant::now());
        let (reply, outcomes) = oneshot::channel();
        let traffic = &self.shared.traffic;
        traffic.began(Api::Memcached, count as u64);
        let deadline = backend_deadline(self.deadline);
        self.shared.backend.call(Call { lane: self.share.id(), operations, deadline, reply });
        let outcomes = timeout(self.deadline, outcomes).await;
        traffic.ended(Api::Memcached, count as u64, begun.elapsed());
        let outcomes = outcomes.ok().and_then(Result::ok).unwrap_or_default();
        let mut replies: Vec<Vec<u8>> =
            outcomes.into_iter().map(|outcome| told(outcome, &self.shared)).collect();
        replies.resize_with(count, || unknown(&self.shared));
        replies
    }

    /// Ends the stream so that the last reply arrives: closing with unread input would discard it at the client.
    async fn close(mut self) {
        let mut discarded = vec![0; 4 << 10];
        let polite = async {
            self.stream.shutdown().await?;
            while self.stream.read(&mut discarded).await? > 0 {}
            Ok::<(), io::Error>(())
        };
        // Whatever the client still sends is not waited for longer than this.
        drop(timeout(LINGER, polite).await);
    }
}

/// Takes a command: what the cluster would refuse is not asked.
fn take(framed: Framed, operations: &mut Vec<Operation>) -> Owed {
    let due = match check(&framed.body) {
        Ok(()) => {
            operations.push(Operation { body: framed.body, mode: Mode::Ordered });
            Due::Asked
        }
        Err(refused) => Due::Known(refused.as_bytes().to_vec()),
    };
    Owed { due, is_quiet: framed.is_quiet }
}

/// The reply that says what became of an operation.
fn told(outcome: Outcome, shared: &Shared) -> Vec<u8> {
    let refused = |number: Code| {
        shared.traffic.refused(Api::Memcached, number);
        let why = explain(number).map_or("refused", |entry| entry.name);
        format!("SERVER_ERROR SYN-{} {why}\r\n", number.number()).into_bytes()
    };
    match outcome {
        Outcome::Accepted { value, .. } => {
            shared.traffic.accepted(Api::Memcached, 1);
            value.to_vec()
        }
        Outcome::Rejected { code, .. } => refused(Code::new(code)),
        Outcome::Unknown(id) => {
            let name = id.map_or_else(|| "none".to_owned(), |id| id.to_string());
            shared.traffic.refused(Api::Memcached, code::DEADLINE_PASSED);
            format!("SERVER_ERROR SYN-3501 unknown id={name}\r\n").into_bytes()
        }
    }
}

fn unknown(shared: &Shared) -> Vec<u8> {
    told(Outcome::Unknown(None), shared)
}
