//! A listener on a free port of the loopback, and clients that speak to it in plain bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use synod_config::{Address, Limits};
use synod_gateway::{RespServer, RespSettings, Shared, Stopper};
use synod_host::Backend;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::Solo;

/// The limits of a node, as its file gives them by default.
pub(crate) const LIMITS: Limits = Limits {
    frame_max: 16 << 20,
    inflight_per_client: 64,
    clients_max: 1_024,
    mempool_bytes: 64 << 20,
    jobs_max: 1_024,
    request_max: 768 << 10,
    gateway_bytes: 128 << 20,
};

/// A served RESP listener.
pub(crate) struct Resp {
    pub(crate) store: Arc<Solo>,
    pub(crate) shared: Shared,
    pub(crate) address: SocketAddr,
    pub(crate) served: JoinHandle<()>,
    pub(crate) stopper: Stopper,
}

impl Resp {
    pub(crate) async fn start() -> Self {
        Self::with(RespSettings::default(), &LIMITS).await
    }

    pub(crate) async fn with(settings: RespSettings, limits: &Limits) -> Self {
        let store = Solo::new();
        let (stopper, stop) = Stopper::new();
        let shared = Shared::new(Arc::clone(&store) as Arc<dyn Backend>, limits, stop);
        let anywhere = Address::loopback(0);
        let server = RespServer::bind(&anywhere, settings, shared.clone()).await;
        let server = server.expect("the loopback can be bound");
        let address = server.local();
        Self { store, shared, address, served: tokio::spawn(server.run()), stopper }
    }

    pub(crate) async fn client(&self) -> Client {
        Client(TcpStream::connect(self.address).await.expect("the listener accepts"))
    }
}

/// A connection to a listener.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the connection is open");
    }

    /// Reads as many bytes as `text` has, which must be `text`.
    pub(crate) async fn expect(&mut self, text: &str) {
        let mut got = vec![0; text.len()];
        let mut filled = 0;
        while filled < got.len() {
            match self.0.read(&mut got[filled..]).await {
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count,
            }
        }
        assert_eq!(String::from_utf8_lossy(&got[..filled]), text);
    }

    /// Sends one inline command, whose reply must be `reply`; line ends may be left out.
    pub(crate) async fn say(&mut self, line: &str, reply: &str) {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.expect(&format!("{}\r\n", reply.replace(' ', "\r\n").replace('_', " "))).await;
    }

    /// Everything until the connection is closed.
    pub(crate) async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        // A reset ends the stream as well as a close does.
        drop(self.0.read_to_end(&mut bytes).await);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Asserts that the connection was closed and nothing more was sent.
    pub(crate) async fn expect_closed(&mut self) {
        assert_eq!(self.rest().await, "");
    }
}

/// One multibulk command.
pub(crate) fn multibulk(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}
