//! Members that withhold: by kind of message, or towards all but a few.

use synod_hotstuff::{Message, Proof};

use super::liar::{Edited, Lie, Move, kinds};

/// Withholds some kinds of messages from some members.
pub(super) struct Withhold {
    kinds: u64,
    from: u32,
}

impl Withhold {
    /// One of several shapes, chosen by a number.
    pub(super) fn drawn(choice: u64) -> Self {
        let kinds =
            [0b1, 0b10, 0b1000, 0b10_0000, 0b1000_0000, 0b1100, 0b1_1111_1111][(choice / 2 % 7) as usize];
        Self { kinds, from: [1, 2, 3][(choice / 14 % 3) as usize] }
    }
}

/// The bit of a kind of message.
const fn kind(message: &Message) -> u64 {
    match message {
        Message::Propose { .. } => 0b1,
        Message::Body { .. } => 0b10,
        Message::Vote { .. } => 0b100,
        Message::Order { .. } => 0b1000,
        Message::Phase(_) => 0b1_0000,
        Message::NewView { .. } => 0b10_0000,
        Message::Complain { .. } => 0b100_0000,
        Message::Advance(_) => 0b1000_0000,
        Message::Forward(_) => 0b1_0000_0000,
        Message::Status(_) | Message::Fetch(_) | Message::Blocks(_) | Message::Attest { .. } => {
            0b10_0000_0000
        }
    }
}

/// Withholds the votes that would finish what a view began: those of the last phase, or those of every third view where all votes are
/// of one kind. Members are locked, and nothing is decided.
pub(super) struct Unfinished;

impl Move for Unfinished {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let (last, is_one) = match kinds(lie.secrets.pack) {
            [only] => (*only, true),
            several => (several[several.len() - 1], false),
        };
        lie.edit(|_, _, message| match &message {
            Message::Vote { kind, view, .. } if *kind == last && (!is_one || view.0.is_multiple_of(3)) => {
                Edited::Nothing
            }
            _ => Edited::Same,
        })
    }
}

impl Move for Withhold {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        lie.edit(|_, to, message| {
            let hit = kind(&message) & self.kinds != 0 && to.0 % self.from == 0;
            if hit { Edited::Nothing } else { Edited::Same }
        })
    }
}

/// Delivers what moves the chain to exactly `to` members, which change with the view.
pub(super) struct Shave {
    pub(super) to: u32,
}

impl Move for Shave {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let members = lie.secrets.members;
        lie.edit(|_, to, message| {
            let view = match &message {
                Message::Propose { header, .. } => header.view,
                Message::Phase(qc) | Message::Advance(Proof::Qc(qc)) => qc.view,
                Message::Advance(Proof::Tc(tc)) => tc.view,
                Message::Vote { view, .. } | Message::Order { view, .. } => *view,
                _ => return Edited::Same,
            };
            let place = view.0.wrapping_mul(3).wrapping_add(u64::from(to.0)) % u64::from(members.max(1));
            if place < u64::from(self.to) { Edited::Same } else { Edited::Nothing }
        })
    }
}
