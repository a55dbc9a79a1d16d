//! What a server's ordering layer hears after a crash.
//!
//! *Ideal.* Nothing, so that what it delivers again is what it wrote; then that other items stand behind it than those
//! that were ordered.
//!
//! *HotStuff.* That the conversation's chain was certified and committed, to its end: the others made it so.

use std::collections::BTreeSet;

use synod_chopchop::server::ServerRecord;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Signature;
use synod_hotstuff::{Blocks, Header, Message as Replica, Piece, Proof, Qc, Statement, View, Want};
use synod_machine::To;
use synod_machine::broadcast::Position;
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, Bytes, List};

use super::frames::opened;
use super::server::Visit;
use crate::systems::chopchop::order::{Numbered, Say};
use crate::systems::chopchop::over::PACK;
use crate::systems::chopchop::plan::{ORDERER, Ordering, SERVER};
use crate::systems::chopchop::sight;

/// What others know that the server may have lost: over the ideal ordering nothing.
pub(super) fn help(visit: &mut Visit<'_>) {
    if visit.plan.ordering != Ordering::HotStuff {
        return;
    }
    let chain = chain(visit);
    for header in &chain {
        if let Some(tc) = &header.tc {
            say(visit, &Replica::Advance(Proof::Tc(tc.clone())));
        }
        let qc = qc(visit, header);
        say(visit, &Replica::Advance(Proof::Qc(qc)));
    }
    if let Some(last) = chain.last() {
        let (view, digest) = (last.view, last.digest());
        for from in others(visit) {
            let Some(signature) = sign(visit, from, Statement::Order { view, digest }) else { continue };
            let order = Replica::Order { view, digest, signature };
            visit.say(SERVER, from, &Message::Ordering(order));
        }
    }
    visit.rest();
}

/// The conversation's last block and those below it, oldest first.
fn chain(visit: &Visit<'_>) -> Vec<Header> {
    let headers = &visit.talk.lore.headers;
    let by_digest = |digest| headers.values().find(|header| header.digest() == digest);
    let mut chain = Vec::new();
    let mut next = headers.last_key_value().map(|(_, header)| header);
    while let Some(header) = next {
        chain.push(header.clone());
        next = by_digest(header.parent);
    }
    chain.reverse();
    chain
}

fn others(visit: &Visit<'_>) -> Vec<NodeId> {
    (0..visit.talk.roles.servers).map(NodeId).filter(|id| *id != visit.own).collect()
}

fn sign(visit: &Visit<'_>, member: NodeId, statement: Statement) -> Option<Signature> {
    let keys = visit.servers.get(usize::try_from(member.0).ok()?)?;
    Some(keys.sign(visit.plan.cluster.scope(), member, statement).into_inner().signature)
}

/// The certificate of a block by all others.
fn qc(visit: &Visit<'_>, block: &Header) -> Qc {
    let (kind, view, digest) = (PACK.kind(), block.view, block.digest());
    if view == View::GENESIS {
        return Qc::empty(Epoch(0), kind, digest);
    }
    let vote = |id: NodeId| Some((id, sign(visit, id, Statement::vote(kind, view, digest))?));
    Qc::assemble(Epoch(0), (kind, view, digest), others(visit).into_iter().filter_map(vote))
}

fn say(visit: &mut Visit<'_>, message: &Replica) {
    let from = NodeId(u32::from(visit.own.0 == 0));
    visit.say(SERVER, from, &Message::Ordering(message.clone()));
}

/// Blocks and bodies that a replica asks for.
pub(super) fn answer(visit: &mut Visit<'_>, to: To, body: &Bytes) {
    if visit.plan.ordering != Ordering::HotStuff {
        return;
    }
    let Some(Message::Ordering(Replica::Fetch(want))) = opened(body) else { return };
    let lore = &visit.talk.lore;
    let from = match to {
        To::Node(id) => id,
        To::Set(set) => set.iter().next().unwrap_or_default(),
    };
    let headers: Vec<Header> = match &want {
        Want::Blocks(digests) => {
            let wanted = |header: &&Header| digests.contains(&header.digest());
            lore.headers.values().filter(wanted).cloned().collect()
        }
        _ => Vec::new(),
    };
    let roots = match &want {
        Want::Bodies(roots) => roots.to_vec(),
        _ => headers.iter().filter(|header| !header.is_empty()).map(|header| header.root).collect(),
    };
    let piece = |root| Some(Piece { root, bytes: Blob::try_from(lore.bodies.get(&root)?.clone()).ok()? });
    let bodies: Vec<Piece> = roots.into_iter().filter_map(piece).collect();
    let (Ok(headers), Ok(bodies)) = (List::try_from(headers), List::try_from(bodies)) else { return };
    if headers.is_empty() && bodies.is_empty() {
        return;
    }
    let blocks = Replica::Blocks(Blocks { headers, bodies, proof: None, anchor: None });
    visit.say(SERVER, from, &Message::Ordering(blocks));
}

/// The position that a record speaks of.
fn place(record: ServerRecord<Numbered>) -> Option<u64> {
    if let ServerRecord::Order(numbered) = record {
        return Some(numbered.position.0);
    }
    let ServerRecord::Mark(mark) = record else { return None };
    Some(mark.position.0)
}

/// Over the ideal ordering: behind what the server wrote down stand the conversation's other items, the last first.
pub(super) fn contradict(visit: &mut Visit<'_>) {
    if visit.plan.ordering != Ordering::Ideal {
        return;
    }
    let records = visit.lone.found.iter().flat_map(|log| &log.records);
    let written = records.filter_map(sight::recalled).filter_map(place);
    let from = written.max().unwrap_or(0) + 1;
    let entries = &visit.talk.lore.entries;
    let known: BTreeSet<&Bytes> = entries.range(..from).map(|(_, payload)| payload).collect();
    let fresh = entries.range(from..).map(|(_, payload)| payload);
    let fresh: Vec<Bytes> =
        fresh.filter(|payload| !payload.is_empty() && !known.contains(payload)).cloned().collect();
    for (position, payload) in (from..).zip(fresh.into_iter().rev()) {
        let Ok(payload) = Blob::try_from(payload) else { continue };
        let numbered = Numbered { position: Position(position), payload };
        visit.say(SERVER, ORDERER, &Message::Ordering(Say::Numbered(numbered)));
    }
    visit.rest();
    visit.certify();
}
