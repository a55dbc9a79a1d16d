//! Who is a member of a view, under which key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::{Claim, Hash, Scope, Signature};
use synod_machine::broadcast::{Context, View as BroadcastView};
use synod_quorum::{Epoch, Member, Model, NodeId, NodeSet, PublicKey, Quorums, Roster};

use super::view::{Change, View, ViewId};
use super::words::{Endorsement, Sworn};

/// Most operators.
pub const OPERATORS_MAX: usize = 16;

/// What everybody knows from the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
    /// Digest of the genesis.
    pub cluster: Hash,
    /// The shard.
    pub shard: u16,
    /// The members of the first view by their numbers.
    pub members: BTreeMap<u8, PublicKey>,
    /// Whose quorum endorses changes.
    pub operators: Vec<PublicKey>,
}

impl Founding {
    /// What cannot work, in words.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let operators: BTreeSet<&PublicKey> = self.operators.iter().collect();
        let checks = [
            (
                Roll::of(self, &View::default()).is_none(),
                "a view has 1 to 128 members, each with a key of its own",
            ),
            (self.operators.len() > OPERATORS_MAX, "there are 16 operators at most"),
            (operators.len() != self.operators.len(), "each operator has a key of its own"),
        ];
        checks.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, why)| why)
    }

    /// How many operators endorse a change; `None` where there are none, so that nothing ever changes.
    #[must_use]
    pub fn endorsers(&self) -> Option<u32> {
        let operators = u32::try_from(self.operators.len()).ok()?;
        Quorums::new(Model::Byzantine, operators).ok().map(|quorums| quorums.intersecting())
    }

    /// What operators sign of a change: good in every view.
    #[must_use]
    pub fn endorsed(&self, change: Change) -> (Scope, Sworn) {
        let context = Context { shard: self.shard, view: View::default().id().digest };
        (Scope { cluster: self.cluster, epoch: Epoch(0) }, Sworn::Endorsed { context, change })
    }

    /// What a change's endorsement claims; `None` unless a quorum of operators, each once, is said to have signed.
    #[must_use]
    pub fn claims(&self, endorsement: &Endorsement) -> Option<Vec<Claim<Sworn>>> {
        let signed = &endorsement.signed;
        let is_enough = u32::try_from(signed.len()).ok()? >= self.endorsers()?;
        let is_in_order = signed.is_sorted_by(|one, next| one.operator < next.operator);
        let (scope, statement) = self.endorsed(endorsement.change);
        let claim = |one: &super::words::Operator| {
            let key = *self.operators.get(usize::from(one.operator))?;
            let (signer, signature) = (NodeId(u32::from(one.operator)), one.signature);
            Some(Claim { statement, scope, signer, key, signature })
        };
        (is_enough && is_in_order).then(|| signed.iter().map(claim).collect()).flatten()
    }
}

/// The members of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roll {
    view: View,
    id: ViewId,
    cluster: Hash,
    context: Context,
    keys: BTreeMap<u8, PublicKey>,
    members: NodeSet,
    quorums: Quorums,
}

impl Roll {
    /// The members after these changes. `None` for what no view is: two members of one number or key, or nobody left.
    #[must_use]
    pub fn of(founding: &Founding, view: &View) -> Option<Arc<Self>> {
        let mut keys = founding.members.clone();
        let mut gone = BTreeSet::new();
        for change in view.changes() {
            match change {
                Change::Join { member, key } => {
                    NodeId::from(*member).member()?;
                    if keys.insert(*member, *key).is_some() {
                        return None;
                    }
                }
                Change::Leave { member } => drop(gone.insert(*member)),
            }
        }
        let distinct: BTreeSet<&PublicKey> = keys.values().collect();
        if distinct.len() != keys.len() || keys.keys().any(|member| NodeId::from(*member).member().is_none())
        {
            return None;
        }
        keys.retain(|member, _| !gone.contains(member));
        let members: NodeSet = keys.keys().map(|member| NodeId::from(*member)).collect();
        let quorums = Quorums::new(Model::Byzantine, members.count()).ok().filter(|_| !members.is_empty())?;
        let id = view.id();
        let context = Context { shard: founding.shard, view: id.digest };
        Some(Arc::new(Self {
            view: view.clone(),
            id,
            cluster: founding.cluster,
            context,
            keys,
            members,
            quorums,
        }))
    }

    /// The view.
    #[must_use]
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// Its names.
    #[must_use]
    pub const fn id(&self) -> ViewId {
        self.id
    }

    /// Its members.
    #[must_use]
    pub const fn members(&self) -> NodeSet {
        self.members
    }

    /// Its members' keys by their numbers.
    #[must_use]
    pub const fn keys(&self) -> &BTreeMap<u8, PublicKey> {
        &self.keys
    }

    /// Its thresholds.
    #[must_use]
    pub const fn quorums(&self) -> &Quorums {
        &self.quorums
    }

    /// The same for whoever broadcasts in it: numbers of members that left stay holes.
    ///
    /// # Panics
    /// Never: a view has members, each with a key of its own.
    #[must_use]
    pub fn broadcasts(&self) -> Arc<BroadcastView> {
        let members =
            self.keys.iter().map(|(number, key)| (*number, Member { key: *key, power: 1 })).collect();
        let roster = Roster::with_holes(Epoch(self.id.number), &members);
        let roster = Arc::new(roster.expect("checked when the view was made"));
        Arc::new(BroadcastView { cluster: self.cluster, roster, context: self.context })
    }

    /// Where its statements are good.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        Scope { cluster: self.cluster, epoch: Epoch(self.id.number) }
    }

    /// See there.
    #[must_use]
    pub const fn context(&self) -> Context {
        self.context
    }

    /// A statement that a member is said to have signed; `None` for whoever is none.
    #[must_use]
    pub fn claim(&self, signer: NodeId, statement: Sworn, signature: Signature) -> Option<Claim<Sworn>> {
        let key = *self.keys.get(&signer.member()?)?;
        Some(Claim { statement, scope: self.scope(), signer, key, signature })
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let changes = self.view.changes().count() * size_of::<Change>();
        (size_of::<Self>() + changes + self.keys.len() * 40) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founding() -> Founding {
        let members = (0..4).map(|member| (member, PublicKey([member + 1; 32]))).collect();
        let operators = (0..4).map(|operator| PublicKey([operator + 100; 32])).collect();
        Founding { cluster: Hash([1; 32]), shard: 0, members, operators }
    }

    const fn join(member: u8, key: u8) -> Change {
        Change::Join { member, key: PublicKey([key; 32]) }
    }

    #[test]
    fn members_are_those_who_joined_and_did_not_leave_and_no_number_comes_back() {
        let founding = founding();
        assert_eq!(founding.fault(), None);
        let changes = [join(4, 50), join(5, 51), Change::Leave { member: 5 }, Change::Leave { member: 0 }];
        let roll = Roll::of(&founding, &View::of(changes).expect("few")).expect("a view");
        assert_eq!(roll.members(), [1, 2, 3, 4].map(NodeId).into_iter().collect());
        assert_eq!((roll.id().number, roll.quorums().intersecting()), (4, 3));
    }

    #[test]
    fn two_members_of_one_number_or_key_and_nobody_at_all_are_no_view() {
        let founding = founding();
        let everybody = (0..4).map(|member| Change::Leave { member }).collect();
        let none = [
            vec![join(4, 50), join(4, 51)],
            vec![join(2, 50)],
            vec![join(4, 50), join(5, 50)],
            vec![join(4, 1)],
            vec![join(128, 50)],
            everybody,
        ];
        for changes in none {
            assert!(Roll::of(&founding, &View::of(changes).expect("few")).is_none());
        }
    }

    #[test]
    fn one_operator_twice_is_no_quorum_of_operators() {
        let founding = founding();
        let signature = Signature([0; 64]);
        let by = |operators: &[u8]| {
            let signed = operators
                .iter()
                .map(|operator| super::super::words::Operator { operator: *operator, signature });
            let signed = signed.collect::<Vec<_>>().try_into().expect("few");
            Endorsement { change: join(4, 50), signed }
        };
        assert_eq!(founding.claims(&by(&[0, 1, 3])).map(|claims| claims.len()), Some(3));
        for wrong in [&[0, 1][..], &[0, 1, 1], &[1, 0, 2], &[0, 1, 4]] {
            assert_eq!(founding.claims(&by(wrong)), None);
        }
        let nobody = Founding { operators: Vec::new(), ..founding };
        assert_eq!(nobody.claims(&by(&[])), None, "without operators nothing changes");
    }
}
