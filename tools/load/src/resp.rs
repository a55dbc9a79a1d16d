//! A client of the Redis protocol: one connection that keeps calls in flight and finds another server when its own
//! goes.
//!
//! Operations are commands as [`write_resp`] writes them. A call that was written to a connection that then broke, or
//! that is not answered by its deadline, ends unknown; one that could not be written by its deadline is rejected.
//!
//! *Bounds.* [`INFLIGHT_MAX`] operations; a reply is at most [`REPLY_BYTES_MAX`].

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use synod_config::code;
use synod_host::{Backend, Call, Outcome};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

/// Most operations in flight on a connection; more are refused as busy.
pub const INFLIGHT_MAX: usize = 1 << 16;
/// Longest reply that is taken.
pub const REPLY_BYTES_MAX: usize = 4 << 20;
/// Longest first line of a reply.
const LINE_BYTES_MAX: usize = 1_024;
/// Pause before another server is tried.
const PAUSE: Duration = Duration::from_millis(10);
/// Most of what is read at a time.
const READ_BYTES: usize = 64 << 10;

/// Appends a command: an array of strings.
pub fn write_resp(verb: &str, arguments: &[&[u8]], out: &mut Vec<u8>) {
    let header = |tag: char, n: usize, out: &mut Vec<u8>| {
        out.extend_from_slice(format!("{tag}{n}\r\n").as_bytes());
    };
    header('*', arguments.len() + 1, out);
    for argument in std::iter::once(verb.as_bytes()).chain(arguments.iter().copied()) {
        header('$', argument.len(), out);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// Where the first reply of `bytes` ends: `Ok(None)` while it is not whole.
///
/// # Errors
/// `()` for what is no reply to a command of a load.
fn reply_end(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let Some(tag) = bytes.first() else { return Ok(None) };
    if !b"+-:_$".contains(tag) {
        return Err(());
    }
    let line = bytes.get(..bytes.len().min(LINE_BYTES_MAX)).unwrap_or_default();
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LINE_BYTES_MAX { Ok(None) } else { Err(()) };
    };
    let digits = bytes.get(1..end).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or(())?;
    if *tag != b'$' || digits == "-1" {
        return Ok(Some(end + 2));
    }
    let length: usize = digits.parse().map_err(|_| ())?;
    if length > REPLY_BYTES_MAX {
        return Err(());
    }
    let whole = end + 2 + length + 2;
    Ok((bytes.len() >= whole).then_some(whole))
}

/// What a reply says of its operation.
fn outcome(reply: &[u8]) -> Outcome {
    if reply.first() != Some(&b'-') {
        let value =
            if reply == b"+OK\r\n" { Bytes::from_static(b"+OK\r\n") } else { Bytes::copy_from_slice(reply) };
        return Outcome::Accepted { value, position: 0 };
    }
    let text = String::from_utf8_lossy(reply);
    let digits = text.split("SYN-").nth(1).and_then(|rest| rest.get(..4));
    match digits.and_then(|digits| digits.parse::<u16>().ok()) {
        Some(code) if code == code::DEADLINE_PASSED.number() => Outcome::Unknown(None),
        Some(code) => {
            let wait = text.split("retry-ms=").nth(1).map(|rest| rest.trim_end().parse().unwrap_or(0));
            Outcome::Rejected { code, retry_ms: wait.unwrap_or(0) }
        }
        // An error without a code is none of Synod's: nothing is known.
        None => Outcome::Unknown(None),
    }
}

/// One connection; its calls are answered in order.
pub struct RespClient {
    calls: mpsc::UnboundedSender<Call>,
    inflight: Arc<AtomicUsize>,
}

impl RespClient {
    /// A connection to `addresses[first]`, or to the next address whenever one does not answer. Needs a runtime.
    ///
    /// # Panics
    /// When there are no addresses.
    #[must_use]
    pub fn connect(addresses: Vec<SocketAddr>, first: usize) -> Self {
        assert!(!addresses.is_empty(), "a client has somewhere to go");
        let (calls, waiting) = mpsc::unbounded_channel();
        let inflight = Arc::new(AtomicUsize::new(0));
        let mut connection =
            Connection { addresses, at: first, waiting, flying: VecDeque::new(), inflight: inflight.clone() };
        tokio::spawn(async move { while connection.live().await {} });
        Self { calls, inflight }
    }
}

impl Backend for RespClient {
    fn call(&self, call: Call) {
        let count = call.operations.len();
        let before = self.inflight.fetch_add(count, Ordering::Relaxed);
        if before + count > INFLIGHT_MAX {
            self.inflight.fetch_sub(count, Ordering::Relaxed);
            let refused = Outcome::Rejected { code: code::BUSY.number(), retry_ms: 10 };
            // Nobody waits for it any more.
            let _ = call.reply.send(vec![refused; count]);
            return;
        }
        // A connection ends with its client; a call that it does not take is dropped, which says unknown.
        let _ = self.calls.send(call);
    }

    fn trust(&self) -> &'static str {
        "gateway"
    }

    fn status(&self) -> serde_json::Value {
        serde_json::json!({ "schema": "synod-status/1" })
    }
}

/// A call that was written.
struct Flying {
    until: Instant,
    count: usize,
    outcomes: Vec<Outcome>,
    reply: oneshot::Sender<Vec<Outcome>>,
}

struct Connection {
    addresses: Vec<SocketAddr>,
    at: usize,
    waiting: mpsc::UnboundedReceiver<Call>,
    flying: VecDeque<Flying>,
    inflight: Arc<AtomicUsize>,
}

impl Connection {
    /// One connection from the first call that needs it to its end; false once nobody calls any more.
    async fn live(&mut self) -> bool {
        let Some(call) = self.waiting.recv().await else { return false };
        let until = Instant::now() + call.deadline;
        let Some(stream) = self.dial(until).await else {
            let outcome = Outcome::Rejected { code: code::REFUSED.number(), retry_ms: 0 };
            let count = call.operations.len();
            self.end(call.reply, vec![outcome; count], count);
            return true;
        };
        let mut out = BytesMut::new();
        self.write(call, &mut out);
        let more = self.serve(&stream, &mut out).await;
        while let Some(Flying { count, mut outcomes, reply, .. }) = self.flying.pop_front() {
            outcomes.resize(count, Outcome::Unknown(None));
            self.end(reply, outcomes, count);
        }
        self.at += 1;
        more
    }

    async fn dial(&mut self, until: Instant) -> Option<TcpStream> {
        while Instant::now() < until {
            let address = *self.addresses.get(self.at % self.addresses.len())?;
            let left = until - Instant::now();
            if let Ok(Ok(stream)) = timeout(left, TcpStream::connect(address)).await {
                // Without it a small command waits for the acknowledgement of the one before; it works either way.
                let _ = stream.set_nodelay(true);
                return Some(stream);
            }
            self.at += 1;
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    fn end(&self, reply: oneshot::Sender<Vec<Outcome>>, outcomes: Vec<Outcome>, count: usize) {
        self.inflight.fetch_sub(count, Ordering::Relaxed);
        // A caller that went away no longer wants its answer.
        let _ = reply.send(outcomes);
    }

    fn write(&mut self, call: Call, out: &mut BytesMut) {
        let Call { operations, deadline, reply, .. } = call;
        let count = operations.len();
        operations.iter().for_each(|operation| out.extend_from_slice(&operation.body));
        let until = Instant::now() + deadline;
        self.flying.push_back(Flying { until, count, outcomes: Vec::with_capacity(count), reply });
    }

    /// Serves until the connection breaks or a deadline passes; false once nobody calls any more.
    async fn serve(&mut self, stream: &TcpStream, out: &mut BytesMut) -> bool {
        let mut read = BytesMut::with_capacity(READ_BYTES);
        let mut calling = true;
        loop {
            if push(stream, out).is_err() {
                return true;
            }
            if !calling && self.flying.is_empty() {
                return false;
            }
            let interest =
                if out.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
            let patience = self.flying.front().map_or_else(|| Instant::now() + PAUSE, |call| call.until);
            tokio::select! {
                call = self.waiting.recv(), if calling => match call {
                    Some(call) => self.write(call, out),
                    None => calling = false,
                },
                ready = stream.ready(interest) => {
                    let Ok(ready) = ready else { return true };
                    if ready.is_readable() && self.pull(stream, &mut read).is_err() {
                        return true;
                    }
                },
                () = sleep_until(patience), if !self.flying.is_empty() => return true,
            }
        }
    }

    /// Reads what is there and notes every whole reply.
    fn pull(&mut self, stream: &TcpStream, read: &mut BytesMut) -> std::io::Result<()> {
        read.reserve(READ_BYTES);
        match stream.try_read_buf(read) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        loop {
            let wrong = |()| std::io::Error::from(std::io::ErrorKind::InvalidData);
            let Some(end) = reply_end(read).map_err(wrong)? else { return Ok(()) };
            let reply = read.get(..end).unwrap_or_default();
            let Some(first) = self.flying.front_mut() else { return Err(wrong(())) };
            first.outcomes.push(outcome(reply));
            read.advance(end);
            if first.outcomes.len() == first.count
                && let Some(Flying { count, outcomes, reply, .. }) = self.flying.pop_front()
            {
                self.end(reply, outcomes, count);
            }
        }
    }
}

/// Writes as much as the connection takes now.
fn push(stream: &TcpStream, out: &mut BytesMut) -> std::io::Result<()> {
    while !out.is_empty() {
        match stream.try_write(out) {
            Ok(count) => out.advance(count),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tally;
    use synod_host::{Mode, Operation};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test)
    }

    fn call(client: &RespClient, count: usize, deadline: Duration) -> oneshot::Receiver<Vec<Outcome>> {
        let mut body = Vec::new();
        write_resp("SET", &[b"k", b"v"], &mut body);
        let operation = Operation { body: body.into(), mode: Mode::Ordered };
        let (reply, answer) = oneshot::channel();
        client.call(Call { lane: 0, operations: vec![operation; count], deadline, reply });
        answer
    }

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        (listener, address)
    }

    /// Reads so many commands of [`call`].
    async fn commands(stream: &mut TcpStream, count: usize) {
        let mut text = vec![0; count * b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".len()];
        stream.read_exact(&mut text).await.expect("they come");
        assert!(text.ends_with(b"$1\r\nv\r\n"));
    }

    #[test]
    fn the_end_of_a_reply_is_found_and_nothing_else_is_taken_for_one() {
        for whole in [&b"+OK\r\n"[..], b"-ERR x\r\n", b":7\r\n", b"$-1\r\n", b"_\r\n", b"$4\r\na\r\nb\r\n"] {
            assert_eq!(reply_end(whole), Ok(Some(whole.len())));
            assert_eq!(reply_end(&[whole, b"+more"].concat()), Ok(Some(whole.len())));
            for cut in 0..whole.len() {
                assert_eq!(reply_end(&whole[..cut]), Ok(None), "{cut}");
            }
        }
        let long = [b"-", &[b'x'; LINE_BYTES_MAX][..]].concat();
        for wrong in [&b"HTTP/1.1"[..], b"*1\r\n", b"$x\r\n", b"$99999999\r\n", b"$-2\r\n", &long] {
            assert_eq!(reply_end(wrong), Err(()));
        }
    }

    #[test]
    fn an_error_says_whether_anything_may_have_happened() {
        let rejected = |code, retry_ms| Outcome::Rejected { code, retry_ms };
        assert_eq!(outcome(b"-TRYAGAIN SYN-3402 retry-ms=25\r\n"), rejected(3_402, 25));
        assert_eq!(outcome(b"-CLUSTERDOWN SYN-3401\r\n"), rejected(3_401, 0));
        assert_eq!(outcome(b"-UNKNOWN SYN-3501 id=r1-x\r\n"), Outcome::Unknown(None));
        assert_eq!(outcome(b"-ERR what\r\n"), Outcome::Unknown(None));
        assert!(matches!(outcome(b"$1\r\nx\r\n"), Outcome::Accepted { .. }));
    }

    #[test]
    fn replies_go_to_their_calls_in_order() {
        run(async {
            let (listener, address) = listener().await;
            let client = RespClient::connect(vec![address], 0);
            let (first, second) = (call(&client, 2, LONG), call(&client, 1, LONG));
            let (mut stream, _) = listener.accept().await.expect("it connects");
            commands(&mut stream, 3).await;
            stream.write_all(b"+OK\r\n-TRYAGAIN SYN-3402 retry-ms=1\r\n:5\r").await.expect("it reads");
            let first = first.await.expect("an answer");
            assert!(matches!(first[..], [Outcome::Accepted { .. }, Outcome::Rejected { code: 3_402, .. }]));
            stream.write_all(b"\n").await.expect("it reads");
            assert_eq!(second.await.expect("an answer"), [outcome(b":5\r\n")]);
        });
    }

    #[test]
    fn what_a_broken_connection_took_with_it_is_unknown_and_the_next_server_serves() {
        run(async {
            let (one, first) = listener().await;
            let (other, second) = listener().await;
            let client = RespClient::connect(vec![first, second], 0);
            let lost = call(&client, 2, LONG);
            let (mut stream, _) = one.accept().await.expect("it connects");
            commands(&mut stream, 2).await;
            stream.write_all(b"+OK\r\n").await.expect("it reads");
            drop((stream, one));
            let lost = lost.await.expect("an answer");
            assert!(matches!(lost[..], [Outcome::Accepted { .. }, Outcome::Unknown(None)]), "{lost:?}");
            let served = call(&client, 1, LONG);
            let (mut stream, _) = other.accept().await.expect("it connects");
            commands(&mut stream, 1).await;
            stream.write_all(b"+OK\r\n").await.expect("it reads");
            assert!(matches!(served.await.expect("an answer")[..], [Outcome::Accepted { .. }]));
        });
    }

    #[test]
    fn a_silent_server_leaves_unknown_and_an_absent_one_rejects() {
        run(async {
            let (listener, address) = listener().await;
            let client = RespClient::connect(vec![address], 0);
            let answer = call(&client, 1, SHORT).await.expect("an answer");
            assert_eq!(answer, [Outcome::Unknown(None)]);
            drop(listener);
            let answer = call(&client, 1, SHORT).await.expect("an answer");
            assert_eq!(answer, [Outcome::Rejected { code: code::REFUSED.number(), retry_ms: 0 }]);
        });
    }

    #[test]
    fn more_than_fits_is_refused_as_busy() {
        run(async {
            let (_listener, address) = listener().await;
            let client = RespClient::connect(vec![address], 0);
            let _most = call(&client, INFLIGHT_MAX, LONG);
            let over = call(&client, 1, LONG).await.expect("an answer");
            assert_eq!(Tally::of(&over).busy, 1);
        });
    }
}
