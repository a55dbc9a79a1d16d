//! Session tickets from a server of our own, for a node that never gave one.

use std::io;
use std::sync::Arc;

use rustls::{ClientConfig, ServerConnection};
use synod_crypto::Seed;

use crate::stranger::client_session;

/// Bytes that are carried between the two sides at a time.
const FLIGHTS_MAX: usize = 16;

/// Lets `config` complete a session with a server whose key is `seed`, in memory, and keep the tickets it gives.
///
/// # Errors
/// The two do not agree, which is a fault of this harness.
pub(super) fn stock(config: &Arc<ClientConfig>, seed: &Seed) -> io::Result<()> {
    let mut client = client_session(config.clone())?;
    let mut server = ServerConnection::new(crate::stranger::server(seed)?).map_err(io::Error::other)?;
    for _ in 0..FLIGHTS_MAX {
        let mut flight = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut flight)?;
        }
        server.read_tls(&mut flight.as_slice())?;
        server.process_new_packets().map_err(io::Error::other)?;
        flight.clear();
        while server.wants_write() {
            server.write_tls(&mut flight)?;
        }
        if flight.is_empty() {
            break;
        }
        client.read_tls(&mut flight.as_slice())?;
        client.process_new_packets().map_err(io::Error::other)?;
    }
    if client.is_handshaking() || server.is_handshaking() {
        return Err(io::Error::other("the ticket's own handshake does not end"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stranger::{Shown, TLS13, client};

    #[test]
    fn a_stocked_client_has_early_data_to_offer() {
        let seed = Seed::new([8; 32]);
        let config = client(&Shown::own(&seed), TLS13).expect("a sound secret");
        let mut before = client_session(config.clone()).expect("a sound configuration");
        assert!(before.early_data().is_none());
        stock(&config, &seed).expect("the two agree");
        let mut after = client_session(config).expect("a sound configuration");
        assert!(after.early_data().is_some());
    }
}
