//! A slot that is open when views change: members with an ACK each, liars, and keys of members that left.

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::views::{Crossing, Kept, Shown, ShownLot, Use, View, ViewId, merge_states};
use synod_crypto::Hash;
use synod_machine::broadcast::Lot;
use synod_wire::{Bytes, Drawn};

use crate::crew::{join, leave, quorum};

const LOT: Lot = Lot { source: 0, sequence: 9 };

fn views() -> [ViewId; 3] {
    let all = [vec![], vec![join(9)], vec![join(9), leave(0)]];
    all.map(|changes| View::of(changes).expect("few").id())
}

fn shown(digest: u8, is_certified: bool) -> Shown {
    let certificate = is_certified.then(|| Bytes::from_static(b"proof").try_into().expect("short"));
    Shown { digest: Hash([digest; 32]), certificate }
}

/// One correct member.
#[derive(Clone)]
struct Member {
    crossing: Crossing<Lot>,
    /// What it signed, by view.
    acked: BTreeMap<u32, u8>,
    settled: Option<u8>,
}

impl Member {
    fn new() -> Self {
        Self { crossing: Crossing::first(views()[0]), acked: BTreeMap::new(), settled: None }
    }

    /// Signs a digest in a view, if it may.
    fn ack(&mut self, view: usize, digest: u8) {
        let number = u32::try_from(view).expect("few");
        let settled = self.settled.map(|digest| Hash([digest; 32]));
        if !self.acked.contains_key(&number)
            && self.crossing.may_sign(&LOT, &Hash([digest; 32]), settled.as_ref())
        {
            self.acked.insert(number, digest);
        }
    }

    /// A certificate of a view.
    fn certified(&mut self, view: usize, digest: u8) {
        if self.crossing.certified(LOT, views()[view], shown(digest, true)) == Use::Settle {
            assert!(self.settled.is_none_or(|settled| settled == digest), "it settles twice, differently");
            self.settled = Some(digest);
        }
    }

    /// What it keeps.
    fn state(&self, view: usize) -> Vec<Shown> {
        if let Some(digest) = self.settled {
            return vec![shown(digest, true)];
        }
        let number = u32::try_from(view).expect("few");
        let mut all: Vec<Shown> = self.crossing.shown().flat_map(|(_, shown)| shown).collect();
        if let Some(digest) = self.acked.get(&number) {
            let own = shown(*digest, false);
            if all.iter().all(|one| one.digest != own.digest) {
                all.push(own);
            }
        }
        all.sort_by_key(|one| one.digest);
        all.truncate(2);
        all
    }
}

fn kept(shown: Vec<Shown>) -> Kept {
    let lots: Vec<ShownLot> = shown.into_iter().map(|shown| ShownLot { lot: LOT, shown }).collect();
    let kept = Kept { lots: lots.try_into().expect("few"), ..Kept::default() };
    Kept::of(&synod_wire::Wire::encode(&kept)).expect("a state")
}

/// A world of correct members and of liars who sign everything.
struct Slots {
    members: Vec<Member>,
    liars: usize,
    drawn: Drawn,
}

impl Slots {
    fn new(seed: u64) -> Self {
        let mut drawn = Drawn::new(seed);
        let n = 4 + usize::try_from(drawn.below(4)).expect("few");
        let liars = (n - 1) / 3;
        Self { members: vec![Member::new(); n - liars], liars, drawn }
    }

    fn n(&self) -> usize {
        self.members.len() + self.liars
    }

    fn pick(&mut self, below: usize) -> usize {
        usize::try_from(self.drawn.below(below as u64)).expect("few")
    }

    /// Whether a quorum can be shown to have signed a digest in a view.
    fn is_certified(&self, view: usize, digest: u8) -> bool {
        let number = u32::try_from(view).expect("few");
        let signed = self.members.iter().filter(|member| member.acked.get(&number) == Some(&digest)).count();
        signed + self.liars >= quorum(self.n())
    }

    /// Drawn members sign what their liar of a source showed them, and some hear of certificates.
    fn go_on(&mut self, view: usize, steps: usize) {
        for _ in 0..steps {
            let at = self.pick(self.members.len());
            let digest = 1 + u8::try_from(self.drawn.below(3)).expect("few");
            if self.drawn.below(3) > 0 {
                self.members[at].ack(view, digest);
            } else if self.is_certified(view, digest) {
                self.members[at].certified(view, digest);
            }
        }
    }

    /// All stop, and each merges the states of a quorum of its own, its own state among them.
    fn change(&mut self, from: usize, to: usize) {
        self.members.iter_mut().for_each(|member| member.crossing.stop());
        let before = self.members.clone();
        for at in 0..before.len() {
            let mut others: Vec<usize> = (0..self.n()).filter(|other| *other != at).collect();
            while others.len() + 1 > quorum(self.n()) {
                let gone = self.pick(others.len());
                others.swap_remove(gone);
            }
            let states: Vec<Kept> = others
                .into_iter()
                .chain([at])
                .map(|who| match before.get(who) {
                    Some(member) => kept(member.state(from)),
                    None => match self.drawn.below(4) {
                        0 => kept(Vec::new()),
                        digest => kept(vec![shown(u8::try_from(digest).expect("few"), false)]),
                    },
                })
                .collect();
            let merged = merge_states(states);
            let crossing = &mut self.members[at].crossing;
            crossing.enter(views()[to], merged.lots);
            crossing.resume();
        }
    }

    fn settled(&self) -> BTreeSet<u8> {
        self.members.iter().filter_map(|member| member.settled).collect()
    }
}

/// T29 and T30: whatever is certified, known to one member or to nobody when views change, and whatever liars show, nothing else settles
/// in the views behind.
#[test]
fn no_slot_settles_differently_in_two_views() {
    let (mut across, mut anew) = (0, 0);
    for seed in 0..5_000 {
        let mut all = Slots::new(seed);
        let steps = all.pick(25);
        all.go_on(0, steps);
        let first = all.settled();
        let formed: BTreeSet<u8> =
            [1, 2, 3].into_iter().filter(|digest| all.is_certified(0, *digest)).collect();
        all.change(0, 1);
        let steps = all.pick(40);
        all.go_on(1, steps);
        // Certificates of the old view are still about.
        for digest in &formed {
            let at = all.pick(all.members.len());
            all.members[at].certified(0, *digest);
        }
        all.change(1, 2);
        all.go_on(2, 60);
        let last = all.settled();
        assert!(last.len() <= 1, "seed {seed}: {last:?} settled");
        assert!(formed.is_empty() || last.is_subset(&formed), "seed {seed}: {formed:?} was certified");
        across += usize::from(!first.is_empty());
        anew += usize::from(first.is_empty() && !last.is_empty());
    }
    assert!(across > 250 && anew > 250, "{across} across, {anew} anew");
}

/// T56: members merged states with one digest each, and keys of members that left certify both in the old view: nothing settles by that.
#[test]
fn keys_of_members_that_left_settle_nothing_in_the_new_view() {
    let mut decided = 0;
    for seed in 0..2_000 {
        let mut all = Slots::new(seed);
        let steps = all.pick(12);
        all.go_on(0, steps);
        if [1, 2, 3].into_iter().any(|digest| all.is_certified(0, digest)) {
            continue;
        }
        all.change(0, 1);
        for at in 0..all.members.len() {
            let digest = 1 + u8::try_from(all.drawn.below(3)).expect("few");
            all.members[at].certified(0, digest);
        }
        assert!(all.settled().is_empty(), "seed {seed}: an old certificate settled something");
        all.go_on(1, 80);
        assert!(all.settled().len() <= 1, "seed {seed}");
        decided += all.settled().len();
    }
    assert!(decided > 200, "{decided} slots were completed in the new view");
}

/// T56: what some acknowledged in the old view, and nobody else saw, completes in the new one in its place.
#[test]
fn a_batch_that_was_half_acknowledged_completes_in_the_new_view() {
    for seed in 0..500 {
        let mut all = Slots::new(seed);
        let some = 1 + all.pick(all.members.len() - 1);
        all.members.iter_mut().take(some).for_each(|member| member.ack(0, 1));
        all.liars = 0;
        all.change(0, 1);
        let open: Vec<Lot> = all.members.iter().flat_map(|member| member.crossing.open().copied()).collect();
        assert!(open.iter().all(|lot| *lot == LOT));
        all.members.iter_mut().for_each(|member| member.ack(1, 1));
        assert!(all.is_certified(1, 1));
        for member in &mut all.members {
            member.certified(1, 1);
            member.crossing.settle(&LOT);
            assert_eq!((member.settled, member.crossing.open().count()), (Some(1), 0));
        }
    }
}

/// A15.
#[test]
fn a_member_that_stopped_signs_and_settles_nothing_until_it_resumes() {
    let [first, second, third] = views();
    let mut crossing: Crossing<Lot> = Crossing::first(first);
    let digest = Hash([1; 32]);
    assert!(crossing.may_sign(&LOT, &digest, None));
    assert_eq!(crossing.certified(LOT, first, shown(1, true)), Use::Settle);
    crossing.stop();
    assert!(!crossing.may_sign(&LOT, &digest, None) && !crossing.may_sign(&LOT, &digest, Some(&digest)));
    assert_eq!(crossing.certified(LOT, first, shown(1, true)), Use::Ignore);
    crossing.enter(second, BTreeMap::new());
    assert!(!crossing.may_sign(&LOT, &digest, None), "entered, and something is left over");
    assert_eq!(crossing.certified(LOT, second, shown(1, true)), Use::Ignore);
    crossing.resume();
    assert!(crossing.may_sign(&LOT, &digest, None));
    assert_eq!(crossing.certified(LOT, second, shown(1, true)), Use::Settle);
    assert_eq!(crossing.certified(LOT, first, shown(1, true)), Use::Collect, "A29");
    assert_eq!(crossing.certified(LOT, third, shown(1, true)), Use::Ignore);
}

#[test]
fn a_late_certificate_decides_where_two_were_shown() {
    let [first, second, _] = views();
    let mut crossing: Crossing<Lot> = Crossing::first(first);
    let merged = merge_states([kept(vec![shown(1, false), shown(2, false)]), kept(vec![shown(3, false)])]);
    crossing.enter(second, merged.lots);
    crossing.resume();
    let digests = [1, 2, 3].map(|digest| Hash([digest; 32]));
    assert!(digests.iter().all(|digest| !crossing.may_sign(&LOT, digest, None)));
    assert_eq!(crossing.certified(LOT, first, shown(3, true)), Use::Collect);
    assert_eq!(digests.map(|digest| crossing.may_sign(&LOT, &digest, None)), [false, false, true]);
    assert_eq!(crossing.certified(LOT, first, shown(1, true)), Use::Collect, "another one contradicts");
    assert!(!crossing.may_sign(&LOT, &digests[0], None), "what came first stays");
}
