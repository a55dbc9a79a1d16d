//! What honest clients sign: C-S5, the promise gate X3, and one content per number (X4).

use std::collections::BTreeMap;

use super::facts::Half;
use super::{EntrySeen, Facts};
use crate::oracle::{Verdict, breach};

/// What a client's newest durable record promises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The lowest number never signed.
    pub next_k: u64,
    /// The message in flight: its number, content, parity.
    pub flight: Option<(u64, Vec<u8>, bool)>,
    /// The highest height it has proof of.
    pub height: u64,
}

/// Everything that honest clients said.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// Under which number and content a root was shown to a client.
    shown: BTreeMap<(u32, Half), (u64, Vec<u8>, bool)>,
    contents: BTreeMap<(u32, u64), (Vec<u8>, bool)>,
    written: BTreeMap<u32, Vec<(u64, Promise)>>,
    durable: BTreeMap<u32, Promise>,
}

impl Clients {
    /// A lane was opened with this newest record.
    pub fn open(&mut self, node: u32, newest: Option<Promise>) {
        self.written.remove(&node);
        match newest {
            Some(promise) => drop(self.durable.insert(node, promise)),
            None => drop(self.durable.remove(&node)),
        }
    }

    /// A record was written.
    ///
    /// # Errors
    /// C-S5: it counts on a height that no honest server has delivered.
    pub fn write(&mut self, node: u32, at: u64, promise: Promise, highest: u64) -> Verdict {
        let height = promise.height;
        self.written.entry(node).or_default().push((at, promise));
        if height <= highest {
            return Ok(());
        }
        breach("C-S5", format!("a client has proof of height {height}, the highest is {highest}"))
    }

    /// A lane is durable up to a place.
    pub fn durable(&mut self, node: u32, until: u64) {
        let Some(written) = self.written.get_mut(&node) else { return };
        let split = written.partition_point(|(at, _)| *at <= until);
        if let Some((_, promise)) = written.drain(..split).next_back() {
            self.durable.insert(node, promise);
        }
    }

    /// A root was shown to a client that has this message in flight.
    pub fn show(&mut self, node: u32, half: Half, k: u64) {
        let flight = self.durable.get(&node).and_then(|promise| promise.flight.clone());
        if let Some((_, message, parity)) = flight {
            self.shown.insert((node, half), (k, message, parity));
        }
    }

    fn one(&mut self, node: u32, k: u64, message: &[u8], parity: bool) -> Verdict {
        let content = (message.to_vec(), parity);
        match self.contents.insert((node, k), content.clone()) {
            Some(known) if known != content => {
                breach("X4", format!("client node {node} signs two contents under number {k}"))
            }
            _ => Ok(()),
        }
    }

    /// An honest client submits a message.
    ///
    /// # Errors
    /// X3, X4, C-S2.
    pub fn submit(&mut self, facts: &mut Facts, node: u32, entry: &EntrySeen) -> Verdict {
        let EntrySeen { message, parity, k, .. } = entry;
        facts.submit(node, *k, message, *parity);
        if facts.asked(node, message) == 0 {
            return breach("C-S2", format!("client node {node} submits what nobody asked for"));
        }
        let held = self.durable.get(&node).and_then(|promise| promise.flight.as_ref());
        if held != Some(&(*k, message.clone(), *parity)) {
            return breach("X3", format!("client node {node} submits {k} before it is durable"));
        }
        self.one(node, *k, message, *parity)
    }

    /// An honest client signs a root.
    ///
    /// # Errors
    /// C-S5, X3, X4.
    pub fn sign(&mut self, facts: &mut Facts, node: u32, half: Half, highest: u64) -> Verdict {
        facts.sign(node, half);
        let Some((k, message, parity)) = self.shown.get(&(node, half)).cloned() else {
            return breach("C-S5", format!("client node {node} signs a root it was not shown"));
        };
        if k >= highest {
            return breach("C-S5", format!("client node {node} signs number {k} below height {highest}"));
        }
        let promise = self.durable.get(&node);
        if promise.is_none_or(|promise| promise.next_k <= k) {
            return breach("X3", format!("client node {node} signs number {k} before it is used up"));
        }
        self.one(node, k, &message, parity)
    }
}
