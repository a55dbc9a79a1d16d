//! Signed entries on their way: the same bytes to one replica after another, until they have settled.

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_quorum::NodeId;

use super::{Answer, Signed, Timer, Wallet, Word};
use crate::trace::Rule;
use crate::words::Level;

impl Wallet {
    /// Who gets entries now: the representative first, and whoever comes behind it when it is silent.
    fn carrier(&self) -> Option<NodeId> {
        let behind = u32::from(self.representative).wrapping_add(self.turn);
        let nth = behind.checked_rem(self.quorums.members())?;
        self.all().iter().nth(usize::try_from(nth).ok()?)
    }

    /// Gives an entry to a replica.
    pub(super) fn submit(&mut self, n: u64, turn: &mut Turn<'_, Self>) {
        let to = self.carrier();
        if let (Some(signed), Some(to)) = (self.open.get_mut(&n), to) {
            signed.is_taken = false;
            turn.send(to, Word::Submit(signed.line.clone()));
        }
        self.wait = self.config.resend;
        turn.arm(Timer::Resend, self.wait);
        turn.arm(Timer::Read, self.config.resend);
    }

    /// Entries that have not settled go to the next replica, in their order.
    pub(super) fn on_resend(&mut self, turn: &mut Turn<'_, Self>) {
        let unsettled = self.open.values_mut().filter(|signed| signed.level < Level::Settled);
        let given = |signed: &mut Signed| {
            signed.is_taken = false;
            signed.line.clone()
        };
        let lines: Vec<_> = unsettled.map(given).collect();
        if lines.is_empty() {
            return;
        }
        self.turn = self.turn.wrapping_add(1);
        turn.applied(Rule::Elsewhere);
        if let Some(to) = self.carrier() {
            for line in lines {
                turn.send(to, Word::Submit(line));
            }
        }
        self.wait = self.wait.times(2).min(self.config.resend_max);
        turn.arm(Timer::Resend, self.wait);
    }

    /// What a replica says of an entry that it was given. A refusal changes nothing: the entry keeps its place. That it was taken is a
    /// reason to read once each time that it is given: who says so again makes nobody ask all members again.
    pub(super) fn on_submitted(
        &mut self,
        from: NodeId,
        digest: Hash,
        answer: Answer,
        turn: &mut Turn<'_, Self>,
    ) {
        let is_asked = self.carrier() == Some(from);
        let Some(signed) = self.open.values_mut().find(|signed| signed.digest == digest) else { return };
        match answer {
            Answer::No(code) => signed.why = Some(code),
            Answer::Yes if is_asked && !signed.is_taken => {
                signed.is_taken = true;
                self.read(turn);
            }
            Answer::Yes | Answer::Busy(_) => {}
        }
    }
}
