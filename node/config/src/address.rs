//! `HOST:PORT`, checked for shape once; names are resolved by the runtime.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Longest host name in bytes (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// A host and a TCP or UDP port. The host is a name, an IPv4 address or an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Reads `host:port`; `None` if the shape is wrong. Port 0 is accepted: it means "the system chooses".
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        if !digits
            || port.len() > 5
            || (port.len() > 1 && port.starts_with('0'))
            || !host_is_well_formed(host)
        {
            return None;
        }
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }

    /// An address on the IPv4 loopback.
    #[must_use]
    pub fn loopback(port: u16) -> Self {
        Self { host: "127.0.0.1".to_owned(), port }
    }

    /// The host without brackets, as a resolver takes it.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }

    /// The port; 0 means the system chooses.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether only this machine can reach it: `localhost` or a loopback address. Other names are not trusted
    /// to be local, whatever they resolve to.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host().parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn host_is_well_formed(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.len() <= HOST_BYTES_MAX && host.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (text, host, port) in [
            ("127.0.0.1:7100", "127.0.0.1", 7100),
            ("[::1]:1", "::1", 1),
            ("node-1.example:0", "node-1.example", 0),
        ] {
            let address = Address::parse(text).expect("the text is well formed");
            assert_eq!((address.host(), address.port(), address.to_string().as_str()), (host, port, text));
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        let bad = [
            "",
            ":",
            "host",
            "host:",
            ":1",
            "host:65536",
            "host:-1",
            "host:+1",
            "host:01",
            "a b:1",
            "::1:1",
            "[::1:1",
            "[x]:1",
            "-a:1",
            "a-:1",
            "a..b:1",
            "host:1 ",
            "ho\u{e9}:1",
        ];
        for text in bad {
            assert_eq!(Address::parse(text), None, "{text}");
        }
        assert_eq!(Address::parse(&format!("{}:1", "a.".repeat(127))), None);
    }

    #[test]
    fn only_loopback_addresses_count_as_local() {
        for text in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"] {
            assert!(Address::parse(text).expect("well formed").is_loopback(), "{text}");
        }
        for text in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "localhost.example:1"] {
            assert!(!Address::parse(text).expect("well formed").is_loopback(), "{text}");
        }
    }
}
