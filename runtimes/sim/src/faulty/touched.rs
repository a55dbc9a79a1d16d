//! Which frames of a call a strategy had its hand in.
//!
//! A frame is touched when the honest machine did not send it to that recipient, or when the same frame was withheld
//! from somebody else. Frames that a strategy lets pass as they were count for nothing.

use synod_machine::{Queue, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::deed::Deed;

/// One frame for one recipient.
type Sent = (NodeId, Queue, Bytes);

/// The frames of a call, one per recipient.
pub(crate) fn sent(deeds: &[Deed]) -> Vec<Sent> {
    let mut all = Vec::new();
    for deed in deeds {
        match deed {
            Deed::Send { to: To::Node(to), queue, body } => all.push((*to, *queue, body.clone())),
            Deed::Send { to: To::Set(set), queue, body } => {
                all.extend(set.iter().map(|to| (to, *queue, body.clone())));
            }
            _ => {}
        }
    }
    all
}

/// For each of the deeds that are left whether it is touched, given the frames the machine sent.
pub(crate) fn touched(before: &[Sent], deeds: &[Deed]) -> Vec<bool> {
    let after = sent(deeds);
    let withheld: Vec<&Sent> = before.iter().filter(|frame| !after.contains(frame)).collect();
    let is_touched = |to: NodeId, queue: Queue, body: &Bytes| {
        !before.iter().any(|frame| (frame.0, frame.1) == (to, queue) && frame.2 == *body)
            || withheld.iter().any(|frame| frame.2 == *body)
    };
    deeds
        .iter()
        .map(|deed| match deed {
            Deed::Send { to: To::Node(to), queue, body } => is_touched(*to, *queue, body),
            Deed::Send { to: To::Set(set), queue, body } => set.iter().any(|to| is_touched(to, *queue, body)),
            _ => false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use synod_quorum::NodeSet;

    use super::*;

    fn to(node: u32, body: &'static [u8]) -> Deed {
        Deed::Send { to: To::Node(NodeId(node)), queue: Queue::CONTROL, body: Bytes::from_static(body) }
    }

    #[test]
    fn new_and_changed_frames_are_touched_and_untouched_ones_are_not() {
        let set = To::Set(NodeSet::first(3));
        let whole = Deed::Send { to: set, queue: Queue::CONTROL, body: Bytes::from_static(b"vote") };
        let before = sent(&[whole, to(1, b"status")]);
        assert_eq!(before.len(), 4);
        let after = [to(0, b"vote"), to(1, b"vote"), to(2, b"vote"), to(1, b"lie"), to(1, b"status")];
        assert_eq!(touched(&before, &after), [false, false, false, true, false]);
    }

    #[test]
    fn what_some_hear_is_touched_when_it_is_withheld_from_others() {
        let before = sent(&[to(0, b"vote"), to(1, b"vote"), to(1, b"status")]);
        assert_eq!(touched(&before, &[to(0, b"vote"), to(1, b"status")]), [true, false]);
    }
}
