//! Ports: base + 10 x index + an offset per service; `ports.json` tells what a deployment really uses.

use crate::address::Address;
use crate::errors::{SynError, code};
use crate::files;
use crate::table::bad_value;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The base when nobody says otherwise.
pub const BASE_PORT: u16 = 7100;
/// Ports of one node.
pub const PORTS_PER_NODE: u16 = 10;

const FILE_BYTES_MAX: usize = 256 << 10;
const SCHEMA: &str = "synod-ports/1";
/// Most nodes in one file.
const NODES_MAX: usize = 1_024;

/// What listens on a port. The admin socket has a path instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// The other members.
    Peer,
    /// Binary clients (TCP).
    Client,
    /// HTTP, WebSocket, dashboard.
    Http,
    /// gRPC.
    Grpc,
    /// RESP.
    Resp,
    /// Metrics and health.
    Metrics,
    /// Memory node.
    Memory,
    /// Linked clusters.
    Link,
    /// Client datagrams (UDP).
    Datagram,
    /// Memcached text, in the place of RESP: no cluster speaks both.
    Memcached,
}

impl Service {
    /// Every service, by offset.
    pub const ALL: [Self; 10] = [
        Self::Peer,
        Self::Client,
        Self::Http,
        Self::Grpc,
        Self::Resp,
        Self::Metrics,
        Self::Memory,
        Self::Link,
        Self::Datagram,
        Self::Memcached,
    ];

    /// Its place in a node's block of ten.
    #[must_use]
    pub fn offset(self) -> u16 {
        match self {
            Self::Memcached => Self::Resp as u16,
            other => other as u16,
        }
    }
}

/// The ten ports of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// They follow each other from this one.
    From(u16),
    /// The system chooses each.
    Free,
}

impl Block {
    /// The block of node `index`; base 0 lets the system choose.
    ///
    /// # Errors
    /// SYN-1103 if the block would end above port 65535.
    pub fn of(base: u16, index: u16) -> Result<Self, SynError> {
        if base == 0 {
            return Ok(Self::Free);
        }
        let first = index.checked_mul(PORTS_PER_NODE).and_then(|offset| base.checked_add(offset));
        let fits = first.filter(|first| first.checked_add(PORTS_PER_NODE - 1).is_some());
        fits.map(Self::From).ok_or_else(|| {
            bad_value(
                "command line",
                "base-port",
                &format!("{base}; the ports of node {index} would end above 65535"),
            )
        })
    }

    /// The port of a service; 0 lets the system choose.
    #[must_use]
    pub fn port(self, service: Service) -> u16 {
        match self {
            Self::From(first) => first + service.offset(),
            Self::Free => 0,
        }
    }

    /// The loopback address of a service.
    #[must_use]
    pub fn address(self, service: Service) -> Address {
        Address::loopback(self.port(service))
    }
}

/// The ports one node listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePorts {
    /// Cluster of the node.
    pub cluster: String,
    /// Name of the node.
    pub name: String,
    /// Its index; ports follow from it unless the system chose them.
    pub index: u16,
    /// Port per service that is on.
    pub ports: BTreeMap<Service, u16>,
}

/// The content of `ports.json`: `{"schema": "synod-ports/1", "nodes": [...]}`. Readers ignore keys they do not
/// know: a schema only grows within its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    schema: String,
    /// Every node, in the order of their indices; at most 1,024.
    pub nodes: Vec<NodePorts>,
}

impl Ports {
    /// The ports of these nodes.
    #[must_use]
    pub fn new(nodes: Vec<NodePorts>) -> Self {
        Self { schema: SCHEMA.to_owned(), nodes }
    }

    /// Reads the text of a file; `file` names it in messages.
    ///
    /// # Errors
    /// SYN-1101 if it is not such JSON, SYN-1110 for another schema, SYN-1103 for port 0 or too many nodes.
    pub fn parse(file: &str, text: &str) -> Result<Self, SynError> {
        let unreadable = |why: &dyn std::fmt::Display| {
            SynError::of(code::CONFIG_UNREADABLE, &[("file", file)]).because(why)
        };
        if text.len() > FILE_BYTES_MAX {
            return Err(unreadable(&format!("it is longer than {FILE_BYTES_MAX} bytes")));
        }
        let ports: Self = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        if ports.schema != SCHEMA {
            let values = [("file", file), ("found", ports.schema.as_str()), ("known", SCHEMA)];
            return Err(SynError::of(code::FORMAT_NEWER, &values));
        }
        if ports.nodes.len() > NODES_MAX {
            return Err(bad_value(file, "nodes", &format!("above {NODES_MAX} nodes long")));
        }
        match ports.nodes.iter().find(|node| node.ports.values().any(|port| *port == 0)) {
            Some(node) => Err(bad_value(file, &node.name, "given port 0")),
            None => Ok(ports),
        }
    }

    /// Reads the file at `path`, at most 256 KiB.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn read(path: &Path) -> Result<Self, SynError> {
        Self::parse(&files::shown(path), &files::read_text(path, FILE_BYTES_MAX)?)
    }

    /// The text of the file.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("names and numbers always become JSON");
        text.push('\n');
        text
    }

    /// Writes the file, replacing an older one as one step.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses.
    pub fn write(&self, path: &Path) -> Result<(), SynError> {
        let readable = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        files::replace(path, self.to_json().as_bytes(), readable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::scratch::Scratch;

    #[test]
    fn each_service_has_its_offset_in_a_block_of_ten() {
        let offsets: Vec<u16> = Service::ALL.iter().map(|service| service.offset()).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6, 7, 8, 4], "Memcached stands where RESP would");
        let block = Block::of(BASE_PORT, 3).expect("the block fits");
        assert_eq!((block.port(Service::Peer), block.port(Service::Resp)), (7130, 7134));
        assert_eq!(Block::of(0, 9).expect("free ports").port(Service::Resp), 0);
        assert_eq!(block.address(Service::Http).to_string(), "127.0.0.1:7132");
    }

    #[test]
    fn a_block_that_leaves_the_range_of_ports_is_refused() {
        assert_eq!(Block::of(65_526, 0), Ok(Block::From(65_526)));
        for (base, index) in [(65_527, 0), (65_500, 3), (7100, 6_000), (1, 65_535)] {
            let refusal = Block::of(base, index).map_err(|error| error.code());
            assert_eq!(refusal, Err(code::BAD_VALUE), "{base} {index}");
        }
    }

    fn sample() -> Ports {
        let ports = BTreeMap::from([(Service::Peer, 7100), (Service::Datagram, 7108)]);
        Ports::new(vec![NodePorts { cluster: "main".to_owned(), name: "n0".to_owned(), index: 0, ports }])
    }

    #[test]
    fn the_file_is_read_back_as_written_and_tolerates_new_keys() {
        let scratch = Scratch::new();
        let path = scratch.path().join("ports.json");
        sample().write(&path).expect("the directory is writable");
        assert_eq!(Ports::read(&path), Ok(sample()));
        let grown = sample().to_json().replacen("\"schema\"", "\"later\": [1], \"schema\"", 1);
        assert_eq!(Ports::parse("ports.json", &grown), Ok(sample()));
    }

    #[test]
    fn bad_files_are_refused_with_their_codes() {
        let good = sample().to_json();
        let cases = [
            (String::new(), code::CONFIG_UNREADABLE),
            (good.replace("7100", "71000"), code::CONFIG_UNREADABLE),
            (good.replace("peer", "pear"), code::CONFIG_UNREADABLE),
            (good.replace("synod-ports/1", "synod-ports/2"), code::FORMAT_NEWER),
            (good.replace("7100", "0"), code::BAD_VALUE),
            (" ".repeat(FILE_BYTES_MAX + 1), code::CONFIG_UNREADABLE),
        ];
        for (text, expected) in cases {
            assert_eq!(Ports::parse("ports.json", &text).map_err(|error| error.code()), Err(expected));
        }
    }
}
