//! Binding listeners and accepting connections.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use synod_config::{Address, SynError, code};
use tokio::net::{TcpListener, TcpStream};

/// Pause after a failed accept; without it a process out of descriptors would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds `address`, which `key` of the configuration gave; port 0 lets the system choose.
///
/// # Errors
/// SYN-2004 if the port is taken, SYN-2002 if the name has no address, else SYN-1103 with the system's reason.
pub(crate) async fn bind(address: &Address, key: &str) -> Result<(TcpListener, SocketAddr), SynError> {
    let refusal = |error: std::io::Error| {
        let shown = address.to_string();
        let refused = match error.kind() {
            ErrorKind::AddrInUse => {
                let values = [("address", shown.as_str()), ("owner", "another process")];
                SynError::of(code::PORT_TAKEN, &values)
            }
            ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied => {
                let values = [("file", "node.toml"), ("key", key), ("problem", "an address it cannot bind")];
                SynError::of(code::BAD_VALUE, &values)
            }
            _ => SynError::of(code::NAME_NOT_FOUND, &[("host", address.host())]),
        };
        refused.because(error)
    };
    let listener = TcpListener::bind((address.host(), address.port())).await.map_err(refusal)?;
    let local = listener.local_addr().map_err(refusal)?;
    Ok((listener, local))
}

/// The next connection; failures are logged and waited out.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Replies are written as a whole, so waiting for more bytes only costs time.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "a connection ended while it was accepted");
                }
                return stream;
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_named_as_such_and_port_zero_is_not() {
        let (_held, taken) = bind(&Address::loopback(0), "listen.resp").await.expect("a port is free");
        assert_ne!(taken.port(), 0);
        let again = bind(&Address::loopback(taken.port()), "listen.resp").await;
        assert_eq!(again.map(|(_, local)| local).map_err(|error| error.code()), Err(code::PORT_TAKEN));
    }
}
