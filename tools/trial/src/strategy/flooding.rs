//! Members that speak of the future: votes, orders and complaints for views nobody has reached, each well formed and
//! signed (B10).

use synod_hotstuff::{Kind, Message, Statement, View};
use synod_quorum::NodeId;

use super::liar::{Lie, Move, kinds};

/// Sends this many promises for views ahead of the newest it knows, per message that arrives
/// and moves the chain.
pub(super) struct Ahead {
    pub(super) messages: u64,
}

/// A promise of a member for a block of `view` that it may have made up.
fn promise(lie: &Lie<'_, '_>, view: View, choice: u64) -> Option<Message> {
    let header = lie.memory.headers.back()?;
    let digest = header.digest();
    if choice.is_multiple_of(4) {
        let high = header.justify.clone();
        let signature = lie.sign(Statement::Complain { view, high: high.view })?;
        return Some(Message::Complain { view, high, signature });
    }
    let kinds = kinds(lie.secrets.pack);
    let kind = *kinds.get(usize::try_from(choice / 4).ok()? % kinds.len())?;
    let signature = lie.sign(Statement::vote(kind, view, digest))?;
    Some(match kind {
        Kind::Order => Message::Order { view, digest, signature },
        _ => Message::Vote { kind, view, digest, signature },
    })
}

impl Move for Ahead {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let Some(newest) = lie.memory.headers.back().map(|header| header.view.0) else { return false };
        let peers: Vec<NodeId> = lie.peers();
        // Never upon what floods are made of: two liars would feed each other.
        if !matches!(lie.heard, Some(Message::Propose { .. } | Message::Phase(_) | Message::Advance(_))) {
            return false;
        }
        for _ in 0..self.messages {
            // Mostly near, where it might be believed; sometimes as far as numbers go.
            let ahead = lie.act.draws.log_uniform(1, 1 << 40);
            let choice = lie.act.draws.draw();
            let to = lie.act.draws.pick(&peers).copied();
            if let (Some(to), Some(message)) = (to, promise(lie, View(newest.saturating_add(ahead)), choice))
            {
                lie.say(to, &message);
            }
        }
        self.messages > 0
    }
}
