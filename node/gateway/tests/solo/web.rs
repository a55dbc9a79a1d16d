//! Plain HTTP/1.1 over a socket: requests as text, responses as status, headers and body.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection that is kept between requests.
pub(crate) struct Http(pub(crate) TcpStream);

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// The SYN code of a problem, after what every problem has was looked at.
    pub(crate) fn problem(&self) -> String {
        let object = self.json();
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.body);
        assert_eq!(object["status"], self.status, "{}", self.body);
        let code = object["code"].as_str().expect("a problem has a code").to_owned();
        assert_eq!(object["type"], format!("urn:synod:error:{code}"));
        for name in ["title", "detail", "outcome", "retry", "fix"] {
            assert!(object[name].is_string(), "{name} in {}", self.body);
        }
        assert!(object["causes"].is_array());
        code
    }
}

impl Http {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.expect("the listener accepts"))
    }

    /// Sends a request and reads its response; `head` are further header lines.
    pub(crate) async fn ask(&mut self, line: &str, head: &[&str], body: &str) -> Reply {
        let mut request = format!("{line} HTTP/1.1\r\nhost: localhost\r\n");
        for one in head {
            request.push_str(one);
            request.push_str("\r\n");
        }
        if !body.is_empty() {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        request.push_str(body);
        self.0.write_all(request.as_bytes()).await.expect("the connection is open");
        self.reply().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.ask(&format!("GET {path}"), &[], "").await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &str) -> Reply {
        self.ask(&format!("PUT {path}"), &[], body).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Reply {
        self.ask(&format!("POST {path}"), &["content-type: application/json"], body).await
    }

    /// Reads one response with a stated length.
    pub(crate) async fn reply(&mut self) -> Reply {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.expect("a whole head comes"));
        }
        let head = String::from_utf8(head).expect("a head is text");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut reply = Reply { status: status.expect("a status"), headers, body: String::new() };
        let length = reply.header("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.0.read_exact(&mut body).await.expect("a body of the stated length");
        reply.body = String::from_utf8(body).expect("a body is text");
        reply
    }

    /// Asserts that the connection was closed and nothing more was sent.
    pub(crate) async fn expect_closed(&mut self) {
        let mut rest = Vec::new();
        // A reset ends the stream as well as a close does.
        drop(self.0.read_to_end(&mut rest).await);
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}
