//! Lines to peers: how they come and go, and when a peer is up.

use std::sync::PoisonError;

use synod_crypto::PublicKey;
use synod_machine::{Link, Time};
use synod_quorum::NodeId;

use super::super::conn::{Around, Close, Conn, ConnParts, Wrong};
use super::{Lines, Net};
use crate::Failure;
use crate::config::Role;
use crate::handshake::{Established, Line};
use crate::quotas::Allowance;

impl Net {
    /// Takes over a connection whose handshake is complete.
    pub(crate) fn join(&mut self, joined: Established, now: Time) {
        self.now = now;
        let Established { channel, claim, key, member, line } = joined;
        let named = member.is_none() && self.parts.named.contains(&key);
        let peer = match member {
            Some(member) => {
                let held = self.member(member).and_then(|m| if line == Line::Main { m.main } else { m.bulk });
                if let Some(old) = held {
                    self.close(old, Close::Replaced);
                }
                member
            }
            None => match self.admit_guest(key) {
                Some(guest) => guest,
                None => return,
            },
        };
        let left = self.member_mut(peer).and_then(|member| member.left(line).take());
        let allowance = left.unwrap_or_else(|| Allowance::new(peer.is_member(), &self.parts.limits, now));
        let token = self.free.pop().unwrap_or(self.conns.len());
        let around = Around {
            table: &self.parts.table,
            limits: &self.parts.limits,
            counters: self.parts.counters.peer(peer),
            now,
        };
        let parts = ConnParts { peer, key, line, channel, claim, allowance, named };
        let conn = Conn::new(parts, self.ready.waker(token), &around);
        conn.look();
        if token == self.conns.len() {
            self.conns.push(Some(conn));
        } else if let Some(place) = self.conns.get_mut(token) {
            *place = Some(conn);
        }
        self.attach(peer, line, token);
    }

    fn admit_guest(&mut self, key: PublicKey) -> Option<NodeId> {
        let named = (NodeId::GUESTS.0..).zip(&self.parts.named).find(|(_, named)| **named == key);
        let guest = if let Some((id, _)) = named {
            // It has one connection; whatever is left of an earlier one is over.
            self.by_guest
                .get(&NodeId(id))
                .copied()
                .into_iter()
                .for_each(|old| self.close(old, Close::Replaced));
            NodeId(id)
        } else {
            let strangers = self.by_guest.len().saturating_sub(self.parts.named.len());
            if strangers >= usize::try_from(self.parts.limits.guests_max).unwrap_or(usize::MAX) {
                return None;
            }
            let guest = NodeId(self.next_guest);
            self.next_guest = self.next_guest.checked_add(1)?;
            guest
        };
        self.parts.guests.lock().unwrap_or_else(PoisonError::into_inner).insert(guest, key);
        Some(guest)
    }

    fn attach(&mut self, peer: NodeId, line: Line, token: usize) {
        let both = self.parts.role == Role::Member;
        let Some(member) = self.member_mut(peer) else {
            self.by_guest.insert(peer, token);
            self.up(peer);
            return;
        };
        match line {
            Line::Main => member.main = Some(token),
            Line::Bulk => member.bulk = Some(token),
        }
        let complete = member.main.is_some() && (member.bulk.is_some() || !both);
        let news = complete && !member.up;
        let again = news && member.met;
        member.up = complete;
        member.met |= complete;
        let member = *member;
        self.signal(peer);
        if again {
            self.parts.counters.peer(peer).reconnects.add(1);
        }
        let lines = [member.main, member.bulk];
        if news {
            self.up(peer);
            lines.into_iter().flatten().for_each(|token| self.give_back(token));
        }
    }

    pub(in crate::reactor) fn up(&mut self, peer: NodeId) {
        self.parts.counters.links_up.add(1);
        self.parts.observer.link(peer, Link::Up);
        self.events.push((peer, Link::Up));
    }

    pub(in crate::reactor) fn down(&mut self, peer: NodeId) {
        self.parts.counters.links_up.sub(1);
        self.parts.observer.link(peer, Link::Down);
        self.events.push((peer, Link::Down));
    }

    fn signal(&self, peer: NodeId) {
        let Some(member) = self.member(peer) else { return };
        let lines = Lines { main: member.main.is_some(), bulk: member.bulk.is_some() };
        if let Some(signal) = usize::try_from(peer.0).ok().and_then(|at| self.parts.signals.get(at)) {
            signal.send_replace(lines);
        }
    }

    /// Ends a connection, and its partner's line with it.
    pub(crate) fn close(&mut self, token: usize, close: Close) {
        let Some(conn) = self.conns.get_mut(token).and_then(Option::take) else { return };
        self.free.push(token);
        let (peer, key) = (conn.peer, conn.key);
        if let Some(member) = self.member_mut(peer) {
            *member.left(conn.line) = Some(conn.allowance);
        }
        let counters = self.parts.counters.peer(peer);
        counters.dropped_frames.add(conn.queue_frames() as u64);
        match &close {
            Close::Misbehaved(wrong) => {
                let Wrong { code, name } = *wrong;
                counters.strikes.add(1);
                let penalty = self.parts.registry.punish(key, self.parts.limits.penalty, self.now);
                tracing::warn!(%peer, code, name, penalty_ms = penalty.as_millis(), "disconnected for misbehaviour");
                let text = format!("SYN-{code} {name}: disconnected for {} ms", penalty.as_millis());
                self.parts.observer.failed(&Failure { peer: Some(peer), code, text });
            }
            Close::Full | Close::Stalled | Close::Silent => counters.resets.add(1),
            Close::Broken | Close::Replaced | Close::Stopped => {}
        }
        tracing::debug!(%peer, line = ?conn.line, ?close, "connection closed");
        conn.goodbye();
        let Some(member) = self.member_mut(peer) else {
            self.by_guest.remove(&peer);
            self.parts.guests.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer);
            return self.down(peer);
        };
        let was_up = core::mem::take(&mut member.up);
        let partner = match (member.main, member.bulk) {
            (Some(main), bulk) if main == token => {
                member.main = None;
                bulk
            }
            (main, _) => {
                member.bulk = None;
                main
            }
        };
        if was_up {
            self.down(peer);
            // Both lines lose their suffix together, so that Down and Up mean the same for every queue.
            if let Some(partner) = partner {
                self.close(partner, Close::Replaced);
            }
        }
        self.signal(peer);
    }
}
