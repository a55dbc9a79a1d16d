//! One request to a port of a node: what `up` and `status` need to ask for health and metrics, and `pay` for its work.
//!
//! The answer comes whole and by the deadline, or not at all. Who gets none learns whether the request may have been taken.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};
use synod_config::{Address, SynError, code};

/// Most bytes of a page, head included.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Method and path.
    pub(crate) line: &'a str,
    /// More lines of the head.
    pub(crate) headers: &'a [String],
    /// JSON, unless it is empty.
    pub(crate) body: &'a str,
    /// How long all of it may take.
    pub(crate) patience: Duration,
    /// Most bytes of the answer, head included.
    pub(crate) answer_bytes_max: usize,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    /// The body; bytes that are not text are replaced.
    pub(crate) body: String,
}

/// What may have become of a request without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody was reached, so nothing was sent.
    Unsent,
    /// It was sent, or a part of it was, and the time passed.
    Late,
    /// It was sent, or a part of it was, and no whole answer can come any more.
    Lost,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// What may have become of the request.
    pub(crate) fate: Fate,
    /// Why, for whom the fate is all the same.
    pub(crate) error: SynError,
}

/// Asks for `path` and waits at most `patience`.
///
/// # Errors
/// SYN-2001 (refused), SYN-2002 (no such name), SYN-2003 (silent, with the stage), SYN-3002 (more than 1 MiB).
pub(crate) fn get(address: &Address, path: &str, patience: Duration) -> Result<Answer, SynError> {
    let line = format!("GET {path}");
    let page = Request { line: &line, headers: &[], body: "", patience, answer_bytes_max: PAGE_BYTES_MAX };
    ask(address, &page).map_err(|unanswered| unanswered.error)
}

/// Sends a request and waits for all of its answer.
///
/// # Errors
/// As [`get`], with what may have become of the request.
pub(crate) fn ask(address: &Address, request: &Request<'_>) -> Result<Answer, Unanswered> {
    let deadline = Instant::now() + request.patience;
    let stream = connect(address, deadline).map_err(|error| Unanswered { fate: Fate::Unsent, error })?;
    let said = exchange(stream, &written(address, request), deadline, request.answer_bytes_max);
    let bytes = said.map_err(|error| unanswered(address, &error))?;
    if bytes.len() > request.answer_bytes_max {
        let limit = format!("{} bytes", request.answer_bytes_max);
        let values = [("what", "the answer"), ("size", "more"), ("limit", &*limit)];
        return Err(Unanswered { fate: Fate::Lost, error: SynError::of(code::TOO_LARGE, &values) });
    }
    parse(&bytes).map_err(|why| unanswered(address, &std::io::Error::other(why)))
}

/// As [`ask`], and again after the pause that the answer names where the node is busy (429), while the patience lasts. A node that
/// is busy took nothing, so an order may be sent again too. The last such answer is given where the patience ends.
///
/// # Errors
/// As [`ask`].
pub(crate) fn ask_until_taken(address: &Address, request: &Request<'_>) -> Result<Answer, Unanswered> {
    let deadline = Instant::now() + request.patience;
    let mut patience = request.patience;
    loop {
        let answer = ask(address, &Request { patience, ..*request })?;
        let Some(pause) = pause_of(&answer).filter(|pause| Instant::now() + *pause < deadline) else {
            return Ok(answer);
        };
        std::thread::sleep(pause);
        patience = left(deadline);
    }
}

/// How long to wait before the same is asked again, where the answer says so.
fn pause_of(answer: &Answer) -> Option<Duration> {
    if answer.status != 429 {
        return None;
    }
    let said: serde_json::Value = serde_json::from_str(&answer.body).ok()?;
    said["retry_after_ms"].as_u64().map(|ms| Duration::from_millis(ms.max(1)))
}

fn written(address: &Address, request: &Request<'_>) -> String {
    let Request { line, headers, body, .. } = request;
    let mut head =
        vec![format!("{line} HTTP/1.0"), format!("Host: {address}"), "Connection: close".to_owned()];
    head.extend_from_slice(headers);
    if !body.is_empty() {
        head.push("Content-Type: application/json".to_owned());
        head.push(format!("Content-Length: {}", body.len()));
    }
    format!("{}\r\n\r\n{body}", head.join("\r\n"))
}

/// Writes `request` and reads until the other end closes or says more than `most` bytes.
fn exchange(
    mut stream: TcpStream,
    request: &str,
    deadline: Instant,
    most: usize,
) -> std::io::Result<Vec<u8>> {
    stream.set_write_timeout(Some(left(deadline)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 16 << 10];
    while answer.len() <= most {
        stream.set_read_timeout(Some(left(deadline)))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= deadline {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Ok(answer)
}

/// Something was sent, and then this.
fn unanswered(address: &Address, error: &std::io::Error) -> Unanswered {
    let is_late = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
    let fate = if is_late { Fate::Late } else { Fate::Lost };
    Unanswered { fate, error: silent(address, "http").because(error) }
}

fn connect(address: &Address, deadline: Instant) -> Result<TcpStream, SynError> {
    let resolved = (address.host(), address.port()).to_socket_addrs();
    let targets: Vec<SocketAddr> = resolved
        .map_err(|error| SynError::of(code::NAME_NOT_FOUND, &[("host", address.host())]).because(error))?
        .collect();
    let mut last = SynError::of(code::NAME_NOT_FOUND, &[("host", address.host())]);
    for target in targets {
        match TcpStream::connect_timeout(&target, left(deadline)) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                last = SynError::of(code::REFUSED, &[("address", &address.to_string())]);
            }
            Err(error) => last = silent(address, "tcp").because(error),
        }
    }
    Err(last)
}

/// What is left until the deadline; never zero, which the system takes for "for ever".
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn silent(address: &Address, stage: &str) -> SynError {
    SynError::of(code::NO_ANSWER, &[("address", &address.to_string()), ("stage", stage)])
}

/// Reads an answer to its end.
fn parse(bytes: &[u8]) -> Result<Answer, &'static str> {
    const NONE: &str = "not an HTTP answer";
    if bytes.is_empty() {
        return Err("the connection was closed without an answer");
    }
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or(NONE)?;
    let (head, body) = bytes.split_at(end);
    let body = body.get(4..).unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let mut words = lines.next().ok_or(NONE)?.split(' ');
    let is_http = words.next().is_some_and(|protocol| protocol.starts_with("HTTP/1."));
    let status = words.next().and_then(|status| status.parse().ok()).filter(|_| is_http).ok_or(NONE)?;
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, length)| length.trim().parse::<usize>().ok());
    if length.is_some_and(|length| body.len() < length) {
        return Err("the connection was closed in the middle of the answer");
    }
    Ok(Answer { status, body: String::from_utf8_lossy(body).into_owned() })
}

#[cfg(test)]
pub(crate) mod fake {
    //! A server that gives one prepared answer per path, and nothing else.

    use super::*;
    use std::net::TcpListener;

    /// Starts answering on a free port; ends with the test process. Paths not listed get 404.
    pub(crate) fn serve(pages: Vec<(&'static str, u16, String)>) -> Address {
        serve_on(TcpListener::bind("127.0.0.1:0").expect("a port is free"), pages)
    }

    /// Starts answering on a listener.
    pub(crate) fn serve_on(listener: TcpListener, pages: Vec<(&'static str, u16, String)>) -> Address {
        let port = listener.local_addr().expect("the listener has an address").port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut request = [0; 1024];
                let count = stream.read(&mut request).expect("a request");
                let text = String::from_utf8_lossy(&request[..count]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                let page = pages.iter().find(|(known, _, _)| *known == path);
                let (status, body) = page.map_or((404, ""), |(_, status, body)| (*status, body));
                drop(write!(stream, "HTTP/1.0 {status} x\r\nContent-Type: text/plain\r\n\r\n{body}"));
            }
        });
        Address::loopback(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        let address = fake::serve(vec![("/readyz", 503, "[-]quorum SYN-3401 2 of 3\n".to_owned())]);
        let answer = get(&address, "/readyz", PATIENCE).expect("the server answers");
        assert_eq!(answer, Answer { status: 503, body: "[-]quorum SYN-3401 2 of 3\n".to_owned() });
        assert_eq!(get(&address, "/else", PATIENCE).map(|answer| answer.status), Ok(404));
    }

    #[test]
    fn nobody_there_is_refused_and_a_wrong_name_is_named() {
        // The port of a service that nothing has offered for decades; a free one might be taken meanwhile.
        let refused = get(&Address::loopback(1), "/", PATIENCE).map_err(|error| error.code());
        assert_eq!(refused, Err(code::REFUSED));
        let nowhere = Address::parse("no-such-host.invalid:1").expect("well formed");
        assert_eq!(get(&nowhere, "/", PATIENCE).map_err(|error| error.code()), Err(code::NAME_NOT_FOUND));
    }

    #[test]
    fn a_silent_server_ends_the_call_by_its_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let silent = get(&Address::loopback(port), "/", Duration::from_millis(50));
        assert_eq!(silent.map_err(|error| error.code()), Err(code::NO_ANSWER));
    }

    #[test]
    fn other_protocols_and_halves_are_not_taken_for_an_answer() {
        let cut = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n{}";
        for text in ["", "HTTP/1.0 200 OK", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", cut] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        let whole = parse(cut.replace('3', "2").as_bytes());
        assert_eq!(whole, Ok(Answer { status: 200, body: "{}".to_owned() }));
    }

    /// Asks whoever listens at `port` for work, with so much time.
    fn work(port: u16, patience: Duration, answer_bytes_max: usize) -> Result<Answer, Unanswered> {
        let line = "POST /work";
        ask(&Address::loopback(port), &Request { line, headers: &[], body: "{}", patience, answer_bytes_max })
    }

    #[test]
    fn who_gets_no_answer_learns_whether_the_request_was_sent() {
        let fate = |asked: Result<Answer, Unanswered>| asked.expect_err("no answer").fate;
        assert_eq!(fate(work(1, PATIENCE, 100)), Fate::Unsent);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        assert_eq!(fate(work(port, Duration::from_millis(50), 100)), Fate::Late);
        let reader = std::thread::spawn(move || {
            // The one that was late, and the one that reads and says nothing.
            for stream in listener.incoming().take(2) {
                let mut request = [0; 1024];
                let read = stream.expect("a connection").read(&mut request).expect("a request");
                assert!(read > 0);
            }
        });
        assert_eq!(fate(work(port, PATIENCE, 100)), Fate::Lost);
        reader.join().expect("it read both");
    }

    #[test]
    fn a_busy_node_is_asked_again_until_it_takes_it_or_the_patience_ends() {
        let busy = |ms: u64| (429, format!("{{\"code\":\"SYN-3402\",\"retry_after_ms\":{ms}}}"));
        let told = |answers: Vec<(u16, String)>, patience: Duration| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let address = Address::loopback(listener.local_addr().expect("it has an address").port());
            let server = std::thread::spawn(move || {
                answers
                    .into_iter()
                    .map(|(status, body)| {
                        let (mut stream, _) = listener.accept().expect("a connection");
                        let mut request = [0; 1024];
                        let count = stream.read(&mut request).expect("a request");
                        write!(stream, "HTTP/1.0 {status} x\r\n\r\n{body}").expect("it listens");
                        String::from_utf8_lossy(&request[..count]).into_owned()
                    })
                    .collect::<Vec<String>>()
            });
            let line = "POST /work";
            let request =
                Request { line, headers: &[], body: "{\"id\":7}", patience, answer_bytes_max: 1_000 };
            let answer = ask_until_taken(&address, &request).expect("it answers");
            (answer.status, server.join().expect("it answered all"))
        };
        let (status, asked) = told(vec![busy(1), busy(0), (200, "{}".to_owned())], PATIENCE);
        assert_eq!((status, asked.len()), (200, 3));
        assert!(asked.iter().all(|one| *one == asked[0] && one.ends_with("{\"id\":7}")), "{asked:?}");
        assert_eq!(told(vec![busy(60_000)], PATIENCE).0, 429, "the pause is longer than the patience");
        assert_eq!(told(vec![(429, "no JSON".to_owned())], PATIENCE).0, 429);
        assert_eq!(told(vec![(503, busy(1).1)], PATIENCE).0, 503, "only a busy node took nothing for sure");
    }

    #[test]
    fn an_answer_above_its_limit_is_refused_as_such() {
        let body = "x".repeat(1_000);
        let address = fake::serve(vec![("/work", 200, body.clone())]);
        let whole = "HTTP/1.0 200 x\r\nContent-Type: text/plain\r\n\r\n".len() + body.len();
        assert_eq!(work(address.port(), PATIENCE, whole).map(|answer| answer.body), Ok(body));
        for most in [whole - 1, 10] {
            let refused = work(address.port(), PATIENCE, most).expect_err("it is too long");
            assert_eq!(refused.error.code(), code::TOO_LARGE, "{refused:?}");
        }
    }
}
