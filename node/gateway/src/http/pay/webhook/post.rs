//! One request of a webhook, and whether it was taken.

use std::fmt;
use std::io;
use std::time::Duration;

use synod_config::Address;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest first line of an answer.
const LINE_MAX: usize = 1 << 10;
/// How much of the rest is read, so that the receiver's answer is not cut off while it writes.
const REST_MAX: u64 = 16 << 10;
/// How long that may take.
const REST_PATIENCE: Duration = Duration::from_secs(1);

/// Why a request was not taken.
#[derive(Debug)]
pub(super) enum Untaken {
    Unreachable(io::Error),
    Late,
    /// Another status than 2xx; redirections are not followed.
    Refused(u16),
    Strange,
}

impl fmt::Display for Untaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => error.fmt(f),
            Self::Late => f.write_str("no answer in time"),
            Self::Refused(status) => write!(f, "status {status}"),
            Self::Strange => f.write_str("no answer of HTTP"),
        }
    }
}

impl From<io::Error> for Untaken {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(error)
    }
}

/// Sends a request on a connection of its own and waits for the status.
pub(super) async fn post(to: &Address, request: &[u8], patience: Duration) -> Result<(), Untaken> {
    let asked = timeout(patience, async {
        let mut stream = TcpStream::connect((to.host(), to.port())).await?;
        stream.write_all(request).await?;
        let status = status(&mut stream).await?;
        Ok::<_, Untaken>((status, stream))
    });
    let (status, stream) = asked.await.map_err(|_| Untaken::Late)??;
    if !(200..300).contains(&status) {
        return Err(Untaken::Refused(status));
    }
    let rest = async { tokio::io::copy(&mut stream.take(REST_MAX), &mut tokio::io::sink()).await };
    // It was taken, whatever else is said.
    let _ = timeout(REST_PATIENCE, rest).await;
    Ok(())
}

/// The status of an answer, by its first line.
async fn status(stream: &mut TcpStream) -> Result<u16, Untaken> {
    let mut line = Vec::new();
    while !line.contains(&b'\n') {
        let mut part = [0; 256];
        let count = stream.read(&mut part).await?;
        line.extend_from_slice(part.get(..count).unwrap_or_default());
        if count == 0 || line.len() > LINE_MAX {
            return Err(Untaken::Strange);
        }
    }
    read_status(&line).ok_or(Untaken::Strange)
}

fn read_status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let (minor, rest) = rest.split_first()?;
    let (digits, behind) = rest.strip_prefix(b" ")?.split_at_checked(3)?;
    let ends = behind.first().is_some_and(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    text.filter(|_| matches!(minor, b'0' | b'1') && ends)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_lines_of_http_alone() {
        for (line, wanted) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 503\r\n", Some(503)),
            ("HTTP/1.1 302 Found\r\n", Some(302)),
            ("HTTP/2 200\r\n", None),
            ("HTTP/1.1 20\r\n", None),
            ("HTTP/1.1 2000\r\n", None),
            ("HTTP/1.1 +20\r\n", None),
            ("HTTP/1.1\r\n", None),
            ("200 OK\r\n", None),
            ("", None),
        ] {
            assert_eq!(read_status(line.as_bytes()), wanted, "{line:?}");
        }
    }
}
