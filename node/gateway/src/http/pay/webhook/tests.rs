//! A webhook against receivers that take nothing at first, that redirect, that say nonsense and that are gone.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::stop::Stopper;

/// So many rows, the n-th of which has position n, three to a page.
struct Made(AtomicU64);

impl Changes for Made {
    fn position(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn behind(&self, position: u64) -> Page {
        let last = self.position().min(position + 3);
        let rows = (position + 1..=last).map(|n| json!({ "position": n.to_string() })).collect();
        Page { rows, last, more: last < self.position() }
    }
}

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("synod-webhook-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the directory for temporary files is writable");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A receiver whose n-th answer is the n-th of these, and then OK; and what it was sent, the head and the body of each.
async fn receiver(answers: Vec<&'static str>) -> (Address, UnboundedReceiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let to = Address::loopback(listener.local_addr().expect("it has an address").port());
    let (told, heard) = unbounded_channel();
    tokio::spawn(async move {
        let (mut answers, mut held) = (answers.into_iter(), Vec::new());
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let (mut text, mut part) = (String::new(), [0; 512]);
            let body = loop {
                let count = stream.read(&mut part).await.expect("a request");
                text.push_str(std::str::from_utf8(&part[..count]).expect("text"));
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length =
                    head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
                if body.len() == length.parse::<usize>().expect("a number") {
                    break (head.to_owned(), serde_json::from_str(body).expect("JSON"));
                }
            };
            let answer = answers.next().unwrap_or("HTTP/1.1 204 No Content\r\n\r\n");
            // Nothing is said: the connection stays open as long as the test.
            if answer.is_empty() {
                held.push(stream);
            } else {
                drop(stream.write_all(answer.as_bytes()).await);
            }
            if told.send(body).is_err() {
                return;
            }
        }
    });
    (to, heard)
}

fn hook(changes: &Arc<Made>, to: &Address, scratch: &Scratch) -> Post<Made> {
    let pace = Pace {
        patience: Duration::from_millis(200),
        pause: Duration::from_millis(1),
        pause_max: Duration::from_millis(4),
    };
    Post {
        changes: Arc::clone(changes),
        to: to.clone(),
        path: "/hook".to_owned(),
        secret: b"secret".to_vec(),
        node: "n0".to_owned(),
        cluster: "c".to_owned(),
        cursor: Cursor::open(&scratch.0).expect("it is ours"),
        hooked: Arc::default(),
        pace,
    }
}

fn positions(body: &Value) -> Vec<u64> {
    let rows = body["changes"].as_array().expect("rows").iter();
    rows.map(|row| row["position"].as_str().expect("a text").parse().expect("a number")).collect()
}

#[tokio::test]
async fn a_page_that_is_not_taken_comes_again_until_it_is_and_nothing_overtakes_it() {
    let bad = vec![
        "HTTP/1.1 500 Oops\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
        "nonsense\r\n",
        "",
    ];
    let (to, mut heard) = receiver(bad).await;
    let (scratch, changes) = (Scratch::new(), Arc::new(Made(AtomicU64::new(5))));
    let post = hook(&changes, &to, &scratch);
    let hooked = Arc::clone(&post.hooked);
    let (stopper, stop) = Stopper::new();
    let running = tokio::spawn(post.run(stop));
    let mut sent = Vec::new();
    for _ in 0..6 {
        sent.push(positions(&heard.recv().await.expect("it posts").1));
    }
    assert_eq!(sent[..5], [[1, 2, 3]; 5], "four times it was not taken");
    assert_eq!(sent[5], [4, 5]);
    changes.0.store(6, Ordering::Relaxed);
    let (head, body) = heard.recv().await.expect("it posts");
    assert_eq!((positions(&body), &body["cursor"], &body["more"]), (vec![6], &json!("6"), &json!(false)));
    assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
    let signed =
        head.lines().find_map(|line| line.strip_prefix("Synod-Signature: t=")).expect("it is signed");
    let (seconds, tag) = signed.split_once(",v1=").expect("a time and a tag");
    let wanted = hmac_sha256(b"secret", &[seconds.as_bytes(), b".", body.to_string().as_bytes()]);
    assert_eq!(tag, hex(&wanted));
    while hooked.position() < 6 {
        tokio::task::yield_now().await;
    }
    assert_eq!(hooked.failures(), 4);
    stopper.stop();
    running.await.expect("it ends");

    // The next one goes on behind what was taken.
    changes.0.store(7, Ordering::Relaxed);
    let (_stopper, stop) = Stopper::new();
    let again = tokio::spawn(hook(&changes, &to, &scratch).run(stop));
    assert_eq!(positions(&heard.recv().await.expect("it posts").1), [7]);
    again.abort();
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_tried_again_and_a_stop_ends_it_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let to = Address::loopback(listener.local_addr().expect("it has an address").port());
    drop(listener);
    let (scratch, changes) = (Scratch::new(), Arc::new(Made(AtomicU64::new(1))));
    let post = hook(&changes, &to, &scratch);
    let hooked = Arc::clone(&post.hooked);
    let (stopper, stop) = Stopper::new();
    let running = tokio::spawn(post.run(stop));
    while hooked.failures() < 3 {
        tokio::task::yield_now().await;
    }
    stopper.stop();
    running.await.expect("it ends");
    assert_eq!((hooked.position(), Cursor::open(&scratch.0).expect("it is ours").position()), (0, 0));
}

#[test]
fn a_cursor_that_cannot_be_read_is_refused_and_not_taken_for_the_beginning() {
    let scratch = Scratch::new();
    let mut cursor = Cursor::open(&scratch.0).expect("there is none");
    cursor.keep(17).expect("the directory is writable");
    assert_eq!(Cursor::open(&scratch.0).map(|cursor| cursor.position()).ok(), Some(17));
    std::fs::write(scratch.0.join("webhook.cursor"), "seventeen").expect("it is ours");
    let refused = Cursor::open(&scratch.0).map_err(|error| error.code());
    assert_eq!(refused.err(), Some(synod_config::code::CONFIG_UNREADABLE));
}
