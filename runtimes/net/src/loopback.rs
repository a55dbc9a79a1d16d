//! How much one stream carries on this machine: what a benchmark of a cluster is compared with.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustls::Connection;
use synod_crypto::Seed;

use crate::Error;
use crate::tls::{self, Pins, Tls};

/// Plaintext handed over at a time: the size of a turn's writes under load.
const PART_BYTES: usize = 64 << 10;
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// Plaintext bytes per second that one stream over loopback carries in one direction, between two threads, with the
/// TLS 1.3 configuration of links between members; measured for `span`, which is never zero.
///
/// # Errors
/// What the system refuses.
pub fn loopback_bytes_per_s(span: Duration) -> Result<u64, Error> {
    assert!(!span.is_zero(), "a rate needs some time");
    let seed = Seed::new([7; 32]);
    let own = Tls::new(&seed)?;
    let accepted = tls::server(own.listener(Pins::Anyone)?)?;
    let dialled = tls::client(own.dial(seed.public())?)?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let sender = std::thread::Builder::new().name("loopback".to_owned());
    let sender = sender.spawn(move || send(address, dialled, span)).map_err(refused)?;
    let (socket, _) = listener.accept().map_err(refused)?;
    let received = receive(socket, accepted);
    let sent = sender.join().map_err(|_| Error::Config("the sender's thread panicked".to_owned()))?;
    sent?;
    received
}

fn refused(why: io::Error) -> Error {
    Error::Config(format!("a stream over loopback: {why}"))
}

fn broken(why: rustls::Error) -> Error {
    tls::named(&why)
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))
}

/// Sends until `span` is over, then says that it ends.
fn send(address: SocketAddr, mut tls: Connection, span: Duration) -> Result<(), Error> {
    let mut socket = TcpStream::connect(address).map_err(refused)?;
    prepare(&socket).map_err(refused)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket).map_err(refused)?;
    }
    let part = vec![0x5a; PART_BYTES];
    let until = Instant::now() + span;
    while Instant::now() < until {
        tls.writer().write_all(&part).map_err(refused)?;
        drain(&mut tls, &mut socket)?;
    }
    tls.send_close_notify();
    drain(&mut tls, &mut socket)
}

fn drain(tls: &mut Connection, socket: &mut TcpStream) -> Result<(), Error> {
    while tls.wants_write() {
        tls.write_tls(socket).map_err(refused)?;
    }
    Ok(())
}

/// Receives to the end; bytes per second from the first on.
fn receive(mut socket: TcpStream, mut tls: Connection) -> Result<u64, Error> {
    prepare(&socket).map_err(refused)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket).map_err(refused)?;
    }
    let mut part = vec![0; PART_BYTES];
    let (mut bytes, mut first) = (0_u64, None);
    loop {
        match tls.reader().read(&mut part) {
            Ok(0) => break,
            Ok(count) => {
                first.get_or_insert_with(Instant::now);
                bytes += count as u64;
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => {
                tls.read_tls(&mut socket).map_err(refused)?;
                tls.process_new_packets().map_err(broken)?;
            }
            Err(why) => return Err(refused(why)),
        }
    }
    let took = first.map_or(Duration::ZERO, |first| first.elapsed());
    let nanos = took.as_nanos().max(1);
    Ok(u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_carries_something_and_ends() {
        let rate = loopback_bytes_per_s(Duration::from_millis(5)).expect("loopback is there");
        assert!(rate > 0);
    }
}
