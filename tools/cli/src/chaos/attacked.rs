//! A cluster of real processes that is attacked over its sockets, and what an attacker has of it.

use crate::bench::{Processes, Start};
use crate::exit::bug;
use crate::http;
use crate::layout::KEY_FILE;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, Instant};
use synod_config::{Address, Code, NodeKey, Service, SynError, code};
use synod_crypto::Seed;

/// How long a node may take to answer its metrics port.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long members may take to link.
const LINK: Duration = Duration::from_secs(10);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A cluster under attack.
pub(crate) struct Attacked {
    pub(crate) processes: Processes,
    metrics: Vec<Address>,
}

impl Attacked {
    /// Starts `nodes` members, of which the last `dead` never run: their keys are the attacker's.
    ///
    /// # Errors
    /// Those of starting a cluster.
    pub(crate) fn start(name: &str, nodes: u16, dead: u16) -> Result<Self, SynError> {
        let processes = Processes::start(&Start { name, nodes, dead, parameters: &|_| {}, flags: &[] })?;
        let metrics = processes.addresses(Service::Metrics);
        Ok(Self { processes, metrics })
    }

    /// Where a member offers a service.
    ///
    /// # Errors
    /// SYN-9001 if there is no such member; SYN-2002 for an address that is none.
    pub(crate) fn at(&self, service: Service, member: usize) -> Result<SocketAddr, SynError> {
        let addresses = self.processes.addresses(service);
        let address = addresses.get(member).ok_or_else(|| bug("address", &"no such member"))?;
        let found = (address.host(), address.port()).to_socket_addrs();
        let found = found.ok().and_then(|mut found| found.next());
        found.ok_or_else(|| SynError::of(code::NAME_NOT_FOUND, &[("host", address.host())]))
    }

    /// The secret of a member.
    ///
    /// # Errors
    /// Those of its key file.
    pub(crate) fn secret(&self, member: usize) -> Result<Seed, SynError> {
        let file = self.processes.directory().join(self.processes.name(member)).join(KEY_FILE);
        Ok(NodeKey::read(&file)?.seed().clone())
    }

    /// The metrics of a member.
    ///
    /// # Errors
    /// SYN-2001 or SYN-2003 if it does not answer.
    pub(crate) fn page(&self, member: usize) -> Result<Page, SynError> {
        let address = self.metrics.get(member).ok_or_else(|| bug("metrics", &"no such member"))?;
        Ok(Page(http::get(address, "/metrics", PATIENCE)?.body))
    }

    /// Waits until `member` hears from `peer`.
    ///
    /// # Errors
    /// SYN-2003 if it does not within 10 s.
    pub(crate) fn linked(&self, member: usize, peer: usize) -> Result<(), SynError> {
        let until = Instant::now() + LINK;
        let series = format!("peer=\"{}\"", self.processes.name(peer));
        while self
            .page(member)?
            .sum("synod_net_received_bytes_total", &series)
            .is_none_or(|bytes| bytes <= 0.0)
        {
            if Instant::now() >= until {
                let address = format!("node {}", self.processes.name(member));
                return Err(SynError::of(code::NO_ANSWER, &[("address", &address), ("stage", "link")]));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Members that were started and run no more.
    pub(crate) fn fallen(&self) -> Vec<String> {
        let alive =
            |at: &usize| self.processes.running(*at).is_some_and(crate::deployment::Running::is_alive);
        let started = self.processes.alive().into_iter().filter(|at| !alive(at));
        started.map(|at| self.processes.name(at).to_owned()).collect()
    }
}

/// A page of metrics.
pub(crate) struct Page(String);

impl Page {
    /// Samples of a series with their labels.
    fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = match rest.strip_prefix('{') {
                Some(labelled) => labelled.rsplit_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            Some((labels, value.parse().ok()?))
        })
    }

    /// The sum of a series over the samples whose labels contain `label`; `None` without any.
    #[expect(clippy::float_arithmetic, reason = "samples of metrics are decimal numbers")]
    pub(crate) fn sum(&self, name: &str, label: &str) -> Option<f64> {
        let chosen: Vec<f64> =
            self.samples(name).filter(|(labels, _)| labels.contains(label)).map(|(_, value)| value).collect();
        (!chosen.is_empty()).then(|| chosen.iter().fold(0.0, |sum, value| sum + value))
    }

    /// Handshakes refused so far, by SYN code.
    pub(crate) fn refusals(&self) -> BTreeMap<u16, u64> {
        let samples = self.0.lines().filter_map(|line| {
            let (labels, count) = line.strip_prefix("synod_handshake_failures_total{")?.rsplit_once("} ")?;
            let (_, rest) = labels.split_once("code=\"")?;
            let code = Code::parse(rest.split('"').next()?)?;
            Some((code.number(), count.parse().ok()?))
        });
        samples.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_by_name_and_label() {
        let page = Page(
            "# HELP a x\na 3\na_total{peer=\"n1\"} 2\na_total{peer=\"n2\"} 5\n\
             synod_handshake_failures_total{code=\"SYN-2102\"} 4\n"
                .to_owned(),
        );
        assert_eq!(page.sum("a", ""), Some(3.0));
        assert_eq!(page.sum("a_total", ""), Some(7.0));
        assert_eq!(page.sum("a_total", "n2"), Some(5.0));
        assert_eq!(page.sum("b", ""), None);
        assert_eq!(page.refusals(), BTreeMap::from([(2_102, 4)]));
    }
}
