//! U-S1, U-S2 and U-S3 of Consistent Tail Broadcast: what replicas that tell the truth deliver of each broadcaster.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use crate::oracle::{Verdict, breach};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    liars: BTreeSet<u32>,
    /// What users asked each replica to broadcast.
    asked: BTreeMap<u32, BTreeSet<Hash>>,
    /// Who delivered what under a number.
    delivered: BTreeMap<(u32, u64), BTreeMap<u32, Hash>>,
    /// The number under which a broadcaster sent something.
    sent: BTreeMap<(u32, Hash), u64>,
    count: u64,
}

impl Deliveries {
    /// Deliveries that were seen.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// A replica lies: from now on nothing is promised of it, or by it.
    pub fn fault(&mut self, node: u32) {
        self.liars.insert(node);
    }

    /// The user of a replica asks it to broadcast something.
    pub fn ask(&mut self, node: u32, digest: Hash) {
        self.asked.entry(node).or_default().insert(digest);
    }

    /// A replica that tells the truth delivers a message.
    ///
    /// # Errors
    /// U-S1, U-S2 or U-S3, whichever it breaks.
    pub fn deliver(&mut self, node: u32, (broadcaster, k): (u32, u64), digest: Hash) -> Verdict {
        self.count += 1;
        let at = self.delivered.entry((broadcaster, k)).or_default();
        if at.insert(node, digest).is_some() {
            breach("U-S3", format!("replica {node} delivers message {k} of {broadcaster} again"))?;
        }
        let differs = |(other, of): &(&u32, &Hash)| **of != digest && !self.liars.contains(other);
        if let Some((other, _)) = at.iter().find(differs) {
            let what = format!("replicas {node} and {other} deliver different messages {k} of {broadcaster}");
            breach("U-S1", what)?;
        }
        if self.liars.contains(&broadcaster) {
            return Ok(());
        }
        let is_asked = self.asked.get(&broadcaster).is_some_and(|asked| asked.contains(&digest));
        if node == broadcaster {
            self.sent.insert((broadcaster, digest), k);
        }
        match self.sent.get(&(broadcaster, digest)) {
            Some(sent) if is_asked && *sent == k => Ok(()),
            Some(sent) if is_asked => breach(
                "U-S2",
                format!("replica {node} delivers as {k} of {broadcaster} what it sent as {sent}"),
            ),
            _ => {
                breach("U-S2", format!("replica {node} delivers as {k} of {broadcaster} what it never sent"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker(verdict: &Verdict) -> &'static str {
        verdict.as_ref().err().map_or("", |breach| breach.checker)
    }

    fn sent() -> (Deliveries, Hash, Hash) {
        let (one, other) = (Hash([1; 32]), Hash([2; 32]));
        let mut seen = Deliveries::default();
        seen.ask(0, one);
        seen.ask(0, other);
        assert_eq!(seen.deliver(0, (0, 1), one), Ok(()));
        assert_eq!(seen.deliver(0, (0, 2), other), Ok(()));
        (seen, one, other)
    }

    #[test]
    fn of_a_correct_broadcaster_what_it_sent_is_delivered_once() {
        let (mut seen, one, other) = sent();
        assert_eq!(seen.deliver(1, (0, 1), one), Ok(()));
        assert_eq!(checker(&seen.clone().deliver(1, (0, 1), one)), "U-S3");
        assert_eq!(checker(&seen.clone().deliver(2, (0, 1), other)), "U-S1");
        assert_eq!(checker(&seen.clone().deliver(2, (0, 3), other)), "U-S2", "under another number");
        assert_eq!(checker(&seen.deliver(2, (0, 3), Hash([3; 32]))), "U-S2");
    }

    #[test]
    fn of_a_liar_no_two_correct_replicas_deliver_different_messages() {
        let (mut seen, one, other) = sent();
        seen.fault(0);
        assert_eq!(seen.deliver(1, (0, 1), other), Ok(()), "what the liar believes counts for nothing");
        assert_eq!(seen.deliver(2, (0, 1), other), Ok(()));
        assert_eq!(checker(&seen.clone().deliver(3, (0, 1), one)), "U-S1");
        seen.fault(1);
        seen.fault(2);
        assert_eq!(seen.deliver(3, (0, 1), one), Ok(()));
    }
}
