//! Datagram links beside the connections: the same peers, sends and events, no connection.

use synod_machine::Link;
use synod_machine::host::Frame;
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::Net;
use super::conn::Wrong;
use crate::frames::Route;
use crate::{Failure, Refusal};

impl Net {
    /// Registers sockets with the runtime of this thread, before anything is sent.
    pub(crate) fn open(&mut self) {
        if let Some(links) = &mut self.links {
            links.open();
        }
    }

    /// Reads every socket of links that is ready.
    pub(super) fn read_links(&mut self) {
        if let Some(links) = &mut self.links {
            links.read(self.now);
        }
    }

    /// Sends to a peer of a link; whether it is one.
    pub(super) fn send_linked(&mut self, route: Route, peer: NodeId, body: &Bytes) -> bool {
        let Some(links) = self.links.as_mut().filter(|links| links.knows(peer)) else { return false };
        if !links.send(route, peer, body) {
            self.parts.counters.peer(peer).dropped_frames.add(1);
        }
        true
    }

    /// Counts what a peer of a link said wrong; whether it is one.
    pub(super) fn strike_linked(&mut self, peer: NodeId, wrong: Wrong) -> bool {
        let Some(links) = self.links.as_mut().filter(|links| links.knows(peer)) else { return false };
        links.strike(peer, wrong == Wrong::QUOTA);
        true
    }

    /// The place of the machine that links serve in the table, if bodies wait for it.
    pub(crate) fn waits_for(&self) -> Option<usize> {
        let links = self.links.as_ref().filter(|links| links.has_frames())?;
        self.table().machines().iter().position(|machine| *machine == links.machine())
    }

    /// The next body that came by a link.
    pub(crate) fn next_linked(&mut self) -> Option<Frame> {
        self.links.as_mut()?.next_frame()
    }

    /// Makes events of links that came up or went down.
    pub(super) fn link_news(&mut self) {
        let news = self.links.as_mut().map(crate::datagram::Links::news).unwrap_or_default();
        for (peer, link) in news {
            match link {
                Link::Up => self.up(peer),
                Link::Down => self.down(peer),
            }
        }
        if let Some(address) = self.links.as_mut().and_then(crate::datagram::Links::forged) {
            // An identity error never shows as a timeout.
            let (code, name) = (Refusal::UnknownKey.code(), Refusal::UnknownKey.name());
            let text = format!("SYN-{code} {name}: {address} accepts links with another key");
            self.parts.observer.failed(&Failure { peer: None, code, text });
        }
    }
}
