//! One request to a port of a node: what `up` and `status` need to ask for health and metrics, and `pay` for its work.
//!
//! The answer comes by the deadline or not at all, and at most 1 MiB of it is read.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};
use synod_config::{Address, SynError, code};

/// Most bytes of an answer, head included.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    /// The body; bytes that are not text are replaced.
    pub(crate) body: String,
}

/// Asks for `path` and waits at most `patience`.
///
/// # Errors
/// SYN-2001 (refused), SYN-2002 (no such name), SYN-2003 (silent, with the stage).
pub(crate) fn get(address: &Address, path: &str, patience: Duration) -> Result<Answer, SynError> {
    ask(address, &format!("GET {path}"), &[], "", patience)
}

/// Sends a request whose first words are `line`, with more header lines and a body of JSON unless that is empty.
///
/// # Errors
/// As [`get`].
pub(crate) fn ask(
    address: &Address,
    line: &str,
    headers: &[String],
    body: &str,
    patience: Duration,
) -> Result<Answer, SynError> {
    let deadline = Instant::now() + patience;
    let mut stream = connect(address, deadline)?;
    let mut head =
        vec![format!("{line} HTTP/1.0"), format!("Host: {address}"), "Connection: close".to_owned()];
    head.extend_from_slice(headers);
    if !body.is_empty() {
        head.push("Content-Type: application/json".to_owned());
        head.push(format!("Content-Length: {}", body.len()));
    }
    let request = format!("{}\r\n\r\n{body}", head.join("\r\n"));
    let silent = |error: std::io::Error| silent(address, "http").because(error);
    stream.set_write_timeout(Some(left(deadline))).map_err(silent)?;
    stream.write_all(request.as_bytes()).map_err(silent)?;
    let mut answer = Vec::new();
    let mut part = [0; 16 << 10];
    while answer.len() < ANSWER_BYTES_MAX {
        stream.set_read_timeout(Some(left(deadline))).map_err(silent)?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(silent(error)),
        }
        if Instant::now() >= deadline {
            return Err(silent(ErrorKind::TimedOut.into()));
        }
    }
    parse(&String::from_utf8_lossy(&answer))
        .ok_or_else(|| self::silent(address, "http").because("not an HTTP answer"))
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

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut words = head.lines().next()?.split(' ');
    let protocol = words.next()?;
    let status = words.next()?.parse().ok()?;
    protocol.starts_with("HTTP/1.").then(|| Answer { status, body: body.to_owned() })
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
    fn other_protocols_are_not_taken_for_an_answer() {
        for text in ["", "HTTP/1.0 200 OK", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
