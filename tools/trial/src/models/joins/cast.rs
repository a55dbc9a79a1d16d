//! Who is there, what operators want, and what the liar can say.

use std::sync::Arc;

use synod_astro::views::{
    CHANGES_MAX, Change, Config, Endorsement, Founding, Message, Operator, Proposal, Roll, Sequence, Step,
    View,
};
use synod_crypto::{Hash, Keys};
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{Crypto, Keyring};
use synod_wire::List;

/// Members of the first view.
pub(super) const FOUNDERS: u8 = 4;
/// Nodes.
pub(super) const NODES: u8 = 6;
/// The founder who lies where one does.
pub(super) const LIAR: u8 = 3;
/// Names of operators' keys, which are no nodes'.
const OPERATORS: u64 = 1 << 40;

/// The keys and names that all runs share.
pub(super) struct Cast {
    keyring: Keyring,
    pub(super) founding: Arc<Founding>,
    genesis: Arc<Roll>,
    /// The lists above the first view that there can be.
    lists: Vec<Sequence>,
}

/// What the liar says of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Lie {
    /// Which list.
    pub(super) list: u8,
    /// Whether it says that it converged on it; else it proposes it.
    pub(super) converged: bool,
}

impl Cast {
    pub(super) fn new() -> Self {
        let keyring = Keyring::new(Crypto::Toy, 1);
        let members = (0..FOUNDERS).map(|id| (id, keyring.public(u64::from(id)))).collect();
        let operators = (0..4).map(|at| keyring.public(OPERATORS + at)).collect();
        let cluster = Hash::of(b"synod model joins");
        let founding = Arc::new(Founding { cluster, shard: 0, members, operators });
        let Some(genesis) = Roll::of(&founding, &View::default()) else {
            unreachable!("four members with keys of their own");
        };
        let mut cast = Self { keyring, founding, genesis, lists: Vec::new() };
        let (one, other) = (cast.join(FOUNDERS), cast.join(FOUNDERS + 1));
        let steps: [&[&[Change]]; 5] =
            [&[&[one]], &[&[other]], &[&[one, other]], &[&[one], &[other]], &[&[other], &[one]]];
        cast.lists = steps.into_iter().filter_map(list).collect();
        cast
    }

    pub(super) fn keys(&self, node: u8) -> Keys {
        self.keyring.keys(u64::from(node))
    }

    pub(super) fn config(&self, node: u8) -> Config {
        let (me, founding) = (NodeId(u32::from(node)), Arc::clone(&self.founding));
        Config { me, founding, resend: Span::millis(500), resend_max: Span::secs(10) }
    }

    fn join(&self, member: u8) -> Change {
        Change::Join { member, key: self.keyring.public(u64::from(member)) }
    }

    /// The view in which both have joined.
    pub(super) fn last(&self) -> View {
        View::of((FOUNDERS..NODES).map(|member| self.join(member))).unwrap_or_default()
    }

    /// That a node joins, signed by three of four operators.
    pub(super) fn endorsement(&self, member: u8) -> Endorsement {
        let change = self.join(member);
        let sign = |operator: u8| {
            let (scope, sworn) = self.founding.endorsed(change);
            let keys = self.keyring.keys(OPERATORS + u64::from(operator));
            let signature = keys.sign(scope, NodeId(u32::from(operator)), sworn).signature;
            Operator { operator, signature }
        };
        let signed = [0, 1, 2].map(sign).to_vec();
        Endorsement { change, signed: signed.try_into().unwrap_or_default() }
    }

    /// All that the liar can say in the first view.
    pub(super) fn lies(&self) -> impl Iterator<Item = Lie> + use<> {
        let lists = u8::try_from(self.lists.len()).unwrap_or(0);
        (0..lists).flat_map(|list| [false, true].map(|converged| Lie { list, converged }))
    }

    /// The words of a lie; of two the one of the higher number counts.
    pub(super) fn say(&self, lie: Lie, number: u64) -> Message {
        let views = match self.lists.get(usize::from(lie.list)) {
            Some(views) => views.clone(),
            None => unreachable!("lies are of the lists that there are"),
        };
        let step = if lie.converged { Step::Converged } else { Step::Proposed };
        let sworn = step.sworn(&self.genesis, &views);
        let own = NodeId(u32::from(LIAR));
        let signature = self.keys(LIAR).sign(self.genesis.scope(), own, sworn).signature;
        let endorsements =
            (FOUNDERS..NODES).filter(|member| views.changes().any(|of| *of == self.join(*member)));
        let endorsements: Vec<Endorsement> = endorsements.map(|member| self.endorsement(member)).collect();
        let endorsements: List<Endorsement, CHANGES_MAX> = endorsements.try_into().unwrap_or_default();
        let proposal = Proposal { view: self.genesis.id(), number, views, signature };
        match lie.converged {
            true => Message::Converged(proposal),
            false => Message::Propose { proposal, endorsements },
        }
    }
}

/// The list of views that these steps make above the first one.
fn list(steps: &[&[Change]]) -> Option<Sequence> {
    let mut views: Vec<View> = Vec::new();
    for step in steps {
        let before: Vec<Change> = views.last().into_iter().flat_map(View::changes).copied().collect();
        views.push(View::of(before.into_iter().chain(step.iter().copied()))?);
    }
    Sequence::above(&View::default(), &views)
}
