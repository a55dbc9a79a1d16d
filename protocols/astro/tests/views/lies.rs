//! What liars say about views, and what becomes of it.

use synod_astro::views::{
    Agreed, Change, Endorsement, Founding, Message, Proposal, Roll, Sequence, SignedState, Step, Sworn, View,
};
use synod_crypto::{Certificate, Signature};
use synod_machine::testing::pick;
use synod_quorum::NodeId;
use synod_wire::List;

use crate::crew::{Views, endorsed, founding, join, keys, leave};

/// The signature of a member under a view.
pub(crate) fn signature(roll: &Roll, member: u32, sworn: Sworn) -> Signature {
    keys(member).sign(roll.scope(), NodeId(member), sworn).signature
}

/// A list that these members signed.
pub(crate) fn agreed(roll: &Roll, views: &Sequence, step: Step, signers: &[u32]) -> Agreed {
    let sworn = step.sworn(roll, views);
    let signed = signers.iter().map(|member| (NodeId(*member), signature(roll, *member, sworn)));
    Agreed { base: roll.id(), views: views.clone(), certificate: Certificate::assemble(sworn, signed) }
}

pub(crate) fn endorsements(founding: &Founding, views: &Sequence) -> List<Endorsement, 256> {
    let all: Vec<Endorsement> = views.changes().map(|change| endorsed(founding, *change)).collect();
    List::try_from(all).expect("few")
}

/// A sequence of views by what each adds.
pub(crate) fn steps(base: &View, steps: &[&[Change]]) -> Sequence {
    let mut views = Vec::new();
    let mut view = base.clone();
    for step in steps {
        view = View::of(view.changes().chain(*step).copied()).expect("few");
        views.push(view.clone());
    }
    Sequence::above(base, &views).expect("they rise")
}

const LIAR: u8 = 3;

/// The liar says something drawn to somebody drawn: lists of its own for everybody, signed and endorsed, and states that are none.
fn lie(all: &mut Views, changes: &[Change]) {
    let nodes = all.seats.len();
    let at = pick(&mut all.drawn, nodes);
    let to = NodeId(u32::try_from(at).expect("few"));
    let roll = all.seats[at].machine.current().clone();
    let (founding, from) = (all.users.founding.clone(), NodeId(u32::from(LIAR)));
    let mut open: Vec<Change> =
        changes.iter().filter(|change| !roll.view().contains(change)).copied().collect();
    let mut cut = Vec::new();
    while !open.is_empty() && (cut.is_empty() || all.drawn.below(2) == 0) {
        let most = 1 + pick(&mut all.drawn, open.len());
        let step: Vec<Change> = (0..most)
            .map(|_| {
                let at = pick(&mut all.drawn, open.len());
                open.swap_remove(at)
            })
            .collect();
        cut.push(step);
    }
    if cut.is_empty() || !roll.members().contains(from) {
        return;
    }
    let cut: Vec<&[Change]> = cut.iter().map(Vec::as_slice).collect();
    let views = steps(roll.view(), &cut);
    let number = all.drawn.below(1 << 20);
    let signed = |step: Step| {
        let signature = signature(&roll, u32::from(LIAR), step.sworn(&roll, &views));
        Proposal { view: roll.id(), number, views: views.clone(), signature }
    };
    let message = match all.drawn.below(5) {
        0 | 1 => {
            let endorsements = endorsements(&founding, &views);
            Message::Propose { proposal: signed(Step::Proposed), endorsements }
        }
        2 | 3 => Message::Converged(signed(Step::Converged)),
        _ => {
            let (context, bytes) = (roll.context(), vec![9, 9, 9, 9, 9]);
            let sworn = Sworn::Stated { context, state: SignedState::digest(&bytes) };
            let signature = signature(&roll, u32::from(LIAR), sworn);
            let state = synod_wire::Bytes::from(bytes).try_into().expect("short");
            Message::State(SignedState { view: roll.id(), member: LIAR, state, signature })
        }
    };
    all.say(from, to, message);
}

/// T54 with a liar that proposes and converges on something else for everybody.
#[test]
fn a_liar_that_proposes_something_else_to_everybody_holds_nobody_up() {
    let mut rules = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut all = Views::new(4, 7, seed);
        all.lies(LIAR);
        let changes = [join(4), join(5), join(6)];
        for member in [4, 5, 6] {
            all.request(member, join(member));
        }
        for _ in 0..150 {
            lie(&mut all, &changes);
            let steps = all.drawn.below(12);
            all.go_on(steps);
        }
        assert!(all.until_runs(&changes), "seed {seed}");
        for (id, seat) in all.correct() {
            assert!(seat.blamed.iter().all(|(who, _)| *who == NodeId(u32::from(LIAR))), "seed {seed}, {id}");
            assert_eq!(all.users.told[id.0 as usize].contradictions, 0);
            rules.extend(seat.rules.iter().copied());
        }
    }
    for rule in
        ["A.request", "A.propose", "A.accept", "A.converge", "A.install", "A.stop", "A.merge", "A.resume"]
    {
        assert!(rules.contains(rule), "{rule} was never applied");
    }
}

/// T55.
#[test]
fn two_installs_of_one_view_with_different_rests_lead_to_one_chain() {
    let mut restarted = 0;
    for seed in 0..40 {
        let mut all = Views::new(4, 6, seed);
        let founding = all.users.founding.clone();
        let first = Roll::of(&founding, &View::default()).expect("the genesis");
        let long = steps(first.view(), &[&[join(4)], &[join(5)]]);
        let short = steps(first.view(), &[&[join(4)]]);
        for (views, to) in [(&long, [0, 1]), (&short, [2, 3])] {
            let agreed = agreed(&first, views, Step::Converged, &[0, 1, 2]);
            let endorsements = endorsements(&founding, &views.rest());
            for to in to {
                let message = Message::Install { agreed: agreed.clone(), endorsements: endorsements.clone() };
                all.say(NodeId(2), NodeId(to), message);
            }
        }
        let steps = all.drawn.below(40);
        all.go_on(steps);
        all.request(4, join(4));
        all.request(5, join(5));
        assert!(all.until_runs(&[join(4), join(5)]), "seed {seed}");
        restarted += all.correct().filter(|(_, seat)| seat.rules.contains("A.rest")).count();
    }
    assert!(restarted > 0, "no smaller rest took the place of another");
}

#[test]
fn nothing_is_made_that_operators_do_not_endorse() {
    let mut all = Views::new(4, 5, 3);
    let founding = founding(4);
    let roll = Roll::of(&founding, &View::default()).expect("the genesis");
    let good = endorsed(&founding, join(4));
    let mut other = good.clone();
    other.change = leave(1);
    let few = Endorsement { signed: good.signed[..2].to_vec().try_into().expect("few"), ..good.clone() };
    for endorsement in [other, few] {
        all.say(NodeId(4), NodeId(0), Message::Reconfig { view: roll.id(), endorsement });
    }
    let views = steps(roll.view(), &[&[leave(1)]]);
    let own = Proposal {
        view: roll.id(),
        number: 1,
        signature: signature(&roll, 2, Step::Proposed.sworn(&roll, &views)),
        views: views.clone(),
    };
    all.say(NodeId(2), NodeId(0), Message::Propose { proposal: own, endorsements: List::default() });
    let forged = agreed(&roll, &views, Step::Converged, &[0, 1]);
    all.say(NodeId(3), NodeId(0), Message::Install { agreed: forged, endorsements: List::default() });
    all.go_on(60);
    let mut blamed = all.seats[0].blamed.clone();
    blamed.sort();
    let expected = [
        (2, "views_bad_proposal"),
        (3, "views_bad_certificate"),
        (4, "views_bad_change"),
        (4, "views_forged"),
    ];
    assert_eq!(blamed, expected.map(|(who, why)| (NodeId(who), why)));
    assert!(all.users.told.iter().all(|told| told.installed.is_empty()));
}

/// A certificate of converged lists proves nothing else, nowhere else.
#[test]
fn a_list_that_was_accepted_installs_nothing_and_another_view_s_neither() {
    let founding = founding(4);
    let first = Roll::of(&founding, &View::default()).expect("the genesis");
    let views = steps(first.view(), &[&[join(4)]]);
    let claims = |agreed: &Agreed| synod_astro::views::claims_of(agreed, &first, Step::Converged).is_some();
    assert!(claims(&agreed(&first, &views, Step::Converged, &[0, 1, 2])));
    assert!(!claims(&agreed(&first, &views, Step::Proposed, &[0, 1, 2])));
    assert!(!claims(&agreed(&first, &views, Step::Converged, &[0, 1])));
    assert!(!claims(&agreed(&first, &views, Step::Converged, &[0, 1, 4])));
    let mut other = agreed(&first, &views, Step::Converged, &[0, 1, 2]);
    other.views = steps(first.view(), &[&[join(5)]]);
    assert!(!claims(&other), "other views than were signed");
    let second = Roll::of(&founding, &views.views(first.view()).expect("above")[0]).expect("a view");
    let next = steps(second.view(), &[&[join(5)]]);
    assert!(!claims(&agreed(&second, &next, Step::Converged, &[0, 1, 2, 4])), "of another view");
}
