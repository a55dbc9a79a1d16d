//! Reflection: the node dials a member that is not there and hears itself.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use synod_crypto::Seed;
use synod_net::foreign::{Introduction, Verdict};

use super::attempt::Attempt;
use crate::stranger::{End, Line, hear, server, tell};

/// How long the node may take to dial.
const DIAL: Duration = Duration::from_secs(15);
/// How long one read may wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// Type of a TLS record that holds an alert.
const ALERT: u8 = 21;

/// Listens where the node expects a member.
pub(super) fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn dialled(listener: &TcpListener) -> io::Result<TcpStream> {
    let until = Instant::now() + DIAL;
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(why) if why.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(LOOK);
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => {
                return Err(io::Error::other("the node does not dial the member that is away"));
            }
            Err(why) => return Err(why),
        }
    }
}

/// Sends every byte of the next dial back.
///
/// # Errors
/// The node does not dial.
pub(super) fn bytes(listener: &TcpListener) -> io::Result<Attempt> {
    let mut stream = dialled(listener)?;
    let begun = Instant::now();
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut buffer, mut count, mut end) = ([0; 4096], 0, End::Closed);
    loop {
        let read = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(why) => {
                if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                    end = End::Silent;
                }
                break;
            }
        };
        count += read as u64;
        if let [ALERT, _, _, _, _, _, code, ..] = buffer[..read] {
            end = End::Alert(crate::stranger::alert(code));
            break;
        }
        if stream.write_all(&buffer[..read]).is_err() {
            break;
        }
        count += read as u64;
    }
    Ok(Attempt { what: "its bytes", end, took: begun.elapsed(), bytes: count })
}

/// Completes TLS with the key of the member that the node dials, and gives the node its own Hello back.
///
/// # Errors
/// The node does not dial.
pub(super) fn hello(listener: &TcpListener, member: &Seed) -> io::Result<Attempt> {
    let mut line = Line::accept(dialled(listener)?, server(member)?, PATIENCE)?;
    let reflect = |line: &mut Line| {
        line.shake()?;
        let said: Introduction = hear(line)?;
        tell(line, &said)?;
        // The node is told that it is admitted, or it would stop here.
        tell(line, &Verdict(0))?;
        hear::<Verdict>(line)
    };
    let end = match reflect(&mut line) {
        Ok(Verdict(0)) => End::Admitted,
        Ok(Verdict(code)) => End::Verdict(code),
        Err(end) => end,
    };
    Ok(Attempt { what: "its Hello", end, took: line.took(), bytes: line.bytes() })
}
