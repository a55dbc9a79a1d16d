//! What one exploration covers: the pack, its views, who plays which role, and how far the schedule may deviate.

use synod_crypto::Hash;
use synod_hotstuff::{Pack, Parameters};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_sim::{Crypto, Keyring};

/// Members of the cluster.
pub(super) const MEMBERS: u8 = 4;
/// Machines: one per member, and the second machine of the twin.
pub(super) const SEATS: usize = 5;
/// The seat of the second twin.
pub(super) const SECOND: u8 = 4;

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The rule pack.
    pub pack: Pack,
    /// The last view whose messages arrive.
    pub views: u64,
    /// The member that two machines share.
    pub twin: u8,
    /// Whether the second of the twins proposes on the certificate before the highest one it holds.
    pub stale: bool,
    /// Most deviations from the lock-step schedule.
    pub deviations: u8,
}

impl Instance {
    /// Its name in reports.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { pack, views, twin, stale, deviations } = self;
        let role = if *stale { "stale" } else { "honest" };
        format!("{} views={views} twin={twin} second={role} deviations={deviations}", pack.name())
    }

    /// The member whose machine sits at `seat`.
    pub(super) const fn member(&self, seat: u8) -> u8 {
        if seat == SECOND { self.twin } else { seat }
    }

    /// The seats of a member, as a bit set.
    pub(super) const fn seats(&self, member: u8) -> u8 {
        let first = 1 << member;
        if member == self.twin { first | 1 << SECOND } else { first }
    }

    /// Whether the member of `seat` has one machine, which follows the protocol.
    pub(super) const fn is_honest(&self, seat: u8) -> bool {
        self.member(seat) != self.twin
    }

    /// Terms of one view; of two where complaints give up terms, so that one can name more than its view.
    pub(super) fn parameters(&self) -> Parameters {
        Parameters {
            term_views: if self.pack.has_terms() { 2 } else { 1 },
            reputation: false,
            checkpoint_every: 1 << 16,
            ..Parameters::of(self.pack, u32::from(MEMBERS))
        }
    }
}

/// The keys and names all machines of a model share.
pub(super) struct Cast {
    /// Every secret.
    pub(super) keyring: Keyring,
    /// The cluster.
    pub(super) cluster: Hash,
    /// Its members.
    pub(super) roster: Roster,
}

impl Cast {
    pub(super) fn new() -> Self {
        let keyring = Keyring::new(Crypto::Toy, 1);
        let member = |id: u8| Member { key: keyring.public(u64::from(id)), power: 1 };
        let roster = match Roster::new(Epoch(0), (0..MEMBERS).map(member).collect()) {
            Ok(roster) => roster,
            Err(refused) => unreachable!("four members with keys of their own: {refused}"),
        };
        Self { keyring, cluster: Hash::of(b"synod model cluster"), roster }
    }

    /// The members of a set of recipients.
    pub(super) fn id(member: u8) -> NodeId {
        NodeId(u32::from(member))
    }
}
