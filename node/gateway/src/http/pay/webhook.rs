//! Webhooks: what settles at this node is posted to a receiver that its operator names (`[webhook]` of node.toml), in the order in which it
//! settled, page by page, until the receiver takes it.
//!
//! *What it gives.* Each row at least once, for ever: the position up to which the receiver took everything is on disk before the next page
//! goes out, and after a crash the last page may come again. A row is what `GET /v1/changes` shows, and its position tells whether it came
//! before. A page that is not taken (no answer within [`PATIENCE`], a status other than 2xx, a redirection, which is not followed) is sent
//! again, later each time, up to [`PAUSE_MAX`]. Nothing overtakes it.
//!
//! *Whom the receiver believes.* Whoever knows the secret: `Synod-Signature: t=SECONDS,v1=HEX` is HMAC-SHA256 over the seconds, a dot and
//! the body.
//!
//! *Bounds.* One page of [`ROWS`] rows, and one connection; what waits is in the index of the node and takes no memory.

mod cursor;
mod post;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use synod_config::{Address, NodeConfig, SynError, hex};
use synod_host::hmac_sha256;
use synod_host::pay::Teller;
use tokio::time::sleep;

use super::feed::rows;
use crate::access::Secret;
use crate::stop::Stop;
use cursor::Cursor;
use post::post;

/// Most rows of a page.
const ROWS: usize = 100;
/// How long a receiver may take for a page.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long is waited behind the first page that was not taken; doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(1);
/// See there.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Between two looks at an index in which nothing settled.
const LOOK: Duration = Duration::from_millis(50);

/// What metrics tell of a webhook.
#[derive(Debug, Default)]
pub struct Hooked {
    position: AtomicU64,
    failures: AtomicU64,
}

impl Hooked {
    /// The position up to which the receiver took everything.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// How many pages it did not take since the process started; one that was sent three times counts thrice.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// Rows behind a position, with the last one's position and whether there are more.
#[derive(Clone, Debug, Default, PartialEq)]
struct Page {
    rows: Vec<Value>,
    last: u64,
    more: bool,
}

/// Where rows come from.
trait Changes: Send + Sync + 'static {
    /// The position of the last one.
    fn position(&self) -> u64;
    /// Those behind a position.
    fn behind(&self, position: u64) -> Page;
}

impl Changes for Teller {
    fn position(&self) -> u64 {
        self.index().position()
    }

    fn behind(&self, position: u64) -> Page {
        let (rows, more, last) = rows(self, position, ROWS);
        Page { rows, last, more }
    }
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
struct Pace {
    patience: Duration,
    pause: Duration,
    pause_max: Duration,
}

/// See the module.
pub struct Webhook(Post<Teller>);

struct Post<C> {
    changes: Arc<C>,
    to: Address,
    path: String,
    secret: Vec<u8>,
    /// What the body says of whose rows they are.
    node: String,
    cluster: String,
    cursor: Cursor,
    hooked: Arc<Hooked>,
    pace: Pace,
}

impl Webhook {
    /// The webhook that a node's file asks for, if it asks for one; `directory` is where that file is.
    ///
    /// # Errors
    /// Those of [`Secret::read`]; SYN-1101 where the position that was reached cannot be read.
    pub fn open(
        config: &NodeConfig,
        directory: &Path,
        teller: &Arc<Teller>,
    ) -> Result<Option<Self>, SynError> {
        let webhook = &config.webhook;
        let (Some(to), Some(file)) = (webhook.address.clone(), &webhook.secret_file) else { return Ok(None) };
        let cursor = Cursor::open(&directory.join(&config.node.data_dir))?;
        let pace = Pace { patience: PATIENCE, pause: PAUSE, pause_max: PAUSE_MAX };
        Ok(Some(Self(Post {
            changes: Arc::clone(teller),
            to,
            path: webhook.path.clone(),
            secret: Secret::bytes(&directory.join(file))?,
            node: config.node.name.clone(),
            cluster: teller.view().cluster.to_string(),
            cursor,
            hooked: Arc::default(),
            pace,
        })))
    }

    /// What metrics tell of it.
    #[must_use]
    pub fn hooked(&self) -> Arc<Hooked> {
        Arc::clone(&self.0.hooked)
    }

    /// Posts until stop is said.
    pub async fn run(self, stop: Stop) {
        self.0.run(stop).await;
    }
}

impl<C: Changes> Post<C> {
    async fn run(mut self, stop: Stop) {
        tokio::select! {
            () = stop.stopped() => {}
            // What was under way then comes again after the next start.
            () = self.post_all() => {}
        }
    }

    /// Ends where the position cannot be kept: rows would come again and again behind a receiver that took them.
    async fn post_all(&mut self) {
        self.hooked.position.store(self.cursor.position(), Ordering::Relaxed);
        loop {
            while self.changes.position() <= self.cursor.position() {
                sleep(LOOK).await;
            }
            let (changes, from) = (Arc::clone(&self.changes), self.cursor.position());
            let Ok(page) = tokio::task::spawn_blocking(move || changes.behind(from)).await else { return };
            self.deliver(&page).await;
            if let Err(error) = self.cursor.keep(page.last) {
                tracing::error!(%error, "a webhook ends: the position that its receiver reached cannot be kept");
                return;
            }
            self.hooked.position.store(page.last, Ordering::Relaxed);
        }
    }

    /// Sends a page until it is taken.
    async fn deliver(&self, page: &Page) {
        let body = json!({
            "schema": "synod-pay-changes/1",
            "cluster": self.cluster,
            "node": self.node,
            "changes": page.rows,
            "more": page.more,
            "cursor": page.last.to_string(),
        });
        let (body, mut pause) = (body.to_string(), self.pace.pause);
        while let Err(why) = post(&self.to, &self.request(&body), self.pace.patience).await {
            self.hooked.failures.fetch_add(1, Ordering::Relaxed);
            let (to, position) = (&self.to, self.cursor.position());
            tracing::warn!(%to, position, %why, wait_ms = pause.as_millis(), "a webhook was not taken");
            sleep(pause).await;
            pause = (pause * 2).min(self.pace.pause_max);
        }
    }

    fn request(&self, body: &str) -> Vec<u8> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let tag = hmac_sha256(&self.secret, &[seconds.to_string().as_bytes(), b".", body.as_bytes()]);
        let Self { to, path, .. } = self;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\nUser-Agent: synod/{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nSynod-Signature: t={seconds},v1={}\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
            body.len(),
            hex(&tag),
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests;
