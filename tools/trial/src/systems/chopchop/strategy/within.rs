//! Lies in the messages of the ordering layer: a liar of HotStuff inside a server.
//!
//! What the server's ordering layer says and hears is shown to the liar as if the replica stood alone; everything else the
//! server says leaves behind it.

use synod_chopchop::vocabulary::{Message, OWN_QUEUES};
use synod_hotstuff::Message as Replica;
use synod_machine::host::Frame;
use synod_machine::{Message as _, Never, Queue};
use synod_sim::{Act, Deed, Seen, Strategy};
use synod_wire::Bytes;

use super::super::plan::SERVER;

/// What stands before a message of the ordering layer in a frame: the version and the tag.
const BEFORE: [u8; 2] = [Message::<Never>::VERSION, 3];

/// Queues of a replica.
const QUEUES: u8 = 3;

/// A frame of the ordering layer as the layer itself would send it.
pub(crate) fn bare(body: &Bytes) -> Option<Bytes> {
    let inside = body.strip_prefix(&BEFORE)?;
    Some([&[Replica::VERSION], inside].concat().into())
}

/// The way back.
fn dressed(body: &Bytes) -> Bytes {
    [&BEFORE, body.get(1..).unwrap_or_default()].concat().into()
}

/// The liar.
pub(super) struct Within(pub(super) Box<dyn Strategy>);

fn undress(deed: Deed, beside: &mut Vec<Deed>) -> Option<Deed> {
    let Deed::Send { to, queue, body } = deed else { return Some(deed) };
    match (bare(&body), queue.0.checked_sub(OWN_QUEUES)) {
        (Some(body), Some(queue)) => Some(Deed::Send { to, queue: Queue(queue), body }),
        _ => {
            beside.push(Deed::Send { to, queue, body });
            None
        }
    }
}

/// What the liar says as a replica leaves in the server's frames. What it repeats of others who share its blackboard may be
/// a server's frame already.
fn dress(deed: Deed) -> Deed {
    match deed {
        Deed::Send { to, queue, body } if queue.0 < QUEUES && body.first() == Some(&Replica::VERSION) => {
            Deed::Send { to, queue: queue.under(OWN_QUEUES), body: dressed(&body) }
        }
        other => other,
    }
}

impl Strategy for Within {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        if act.machine != SERVER {
            return false;
        }
        let heard = match act.seen {
            Seen::Frame(frame) => bare(&frame.body).map(|body| {
                Seen::Frame(Frame {
                    from: frame.from,
                    queue: Queue(frame.queue.0.saturating_sub(OWN_QUEUES)),
                    body,
                })
            }),
            _ => None,
        };
        let mut beside = Vec::new();
        let deeds = core::mem::take(act.deeds).into_iter();
        let mut inside: Vec<Deed> = deeds.filter_map(|deed| undress(deed, &mut beside)).collect();
        let mut later = Vec::new();
        let changed = self.0.act(&mut Act {
            now: act.now,
            node: act.node,
            machine: act.machine,
            seen: heard.as_ref().unwrap_or(act.seen),
            deeds: &mut inside,
            peers: act.peers,
            later: &mut later,
            crash_after: &mut *act.crash_after,
            draws: &mut *act.draws,
            board: &mut *act.board,
            keys: act.keys,
        });
        act.deeds.extend(inside.into_iter().map(dress));
        act.deeds.append(&mut beside);
        act.later.extend(later.into_iter().map(|(after, deed)| (after, dress(deed))));
        changed
    }
}

#[cfg(test)]
mod tests {
    use synod_chopchop::vocabulary::Message;
    use synod_crypto::{Hash, Signature};
    use synod_hotstuff::{Message as Replica, View};
    use synod_machine::{Message as Spoken, Queue};
    use synod_wire::{Bytes, Wire};

    use super::{bare, dressed};
    use crate::strategy::sealed;

    #[test]
    fn a_replicas_message_is_undressed_and_dressed_again() {
        let vote = Replica::Order { view: View(3), digest: Hash::ZERO, signature: Signature([1; 64]) };
        let outer = Message::Ordering(vote.clone());
        let version = Message::<Replica>::VERSION;
        let frame: Bytes = [&[version], outer.encode().as_ref()].concat().into();
        let inside = bare(&frame).expect("it is the ordering layer's");
        assert_eq!(inside, sealed(&vote));
        assert_eq!(dressed(&inside), frame);
        assert_eq!(outer.queue(), vote.queue().under(synod_chopchop::vocabulary::OWN_QUEUES));
        assert_ne!(outer.queue(), Queue::CONTROL);
        assert!(bare(&Bytes::from_static(&[9, 9, 9])).is_none());
    }
}
