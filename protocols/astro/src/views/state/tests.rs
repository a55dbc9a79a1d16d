//! The merge rule, by cases and against every history of acknowledgments that a few members and a liar can make.

use synod_wire::Drawn;

use super::*;

const LOT: Lot = Lot { source: 2, sequence: 7 };

fn shown(digest: u8, is_certified: bool) -> Shown {
    let certificate = is_certified.then(|| Bytes::from_static(b"proof").try_into().expect("short"));
    Shown { digest: Hash([digest; 32]), certificate }
}

fn kept(lots: &[(Lot, Shown)], tips: &[(u64, u8)]) -> Kept {
    let lots: Vec<ShownLot> =
        lots.iter().map(|(lot, shown)| ShownLot { lot: *lot, shown: shown.clone() }).collect();
    let tip = |(sequence, digest): &(u64, u8)| {
        let lot = Lot { source: LOT.source, sequence: *sequence };
        Tip { lot, shown: shown(*digest, true) }
    };
    let tips: Vec<Tip> = tips.iter().map(tip).collect();
    Kept { tips: tips.try_into().expect("few"), lots: lots.try_into().expect("few"), ..Kept::default() }
}

fn verdict(states: &[&[Shown]]) -> Option<Verdict> {
    let states = states.iter().map(|shown| {
        let lots: Vec<(Lot, Shown)> = shown.iter().map(|one| (LOT, one.clone())).collect();
        kept(&lots, &[])
    });
    merge_states(states).lots.remove(&LOT)
}

#[test]
fn a_certificate_wins_one_digest_may_be_accepted_and_of_two_neither() {
    let (one, other) = (Hash([1; 32]), Hash([2; 32]));
    assert_eq!(verdict(&[&[], &[]]), None);
    let alone = verdict(&[&[shown(1, false)], &[], &[shown(1, false)]]).expect("shown");
    assert_eq!(alone, Verdict::May(one));
    assert!(alone.allows(&one) && !alone.allows(&other));
    let two = verdict(&[&[shown(1, false)], &[shown(2, false)]]).expect("shown");
    assert_eq!(two, Verdict::Neither([one, other]));
    assert!(!two.allows(&one) && !two.allows(&other));
    for states in [
        [&[shown(1, true)][..], &[shown(2, false)]],
        [&[shown(2, false)], &[shown(1, true)]],
        [&[shown(1, false), shown(2, false)], &[shown(1, true)]],
    ] {
        let won = verdict(&states).expect("shown");
        assert_eq!(won, Verdict::Certified(shown(1, true)));
        assert!(won.allows(&one) && !won.allows(&other));
    }
    let broken = verdict(&[&[shown(1, true)], &[shown(2, true)]]).expect("shown");
    assert!(!broken.allows(&one) && !broken.allows(&other), "more lie than may");
}

#[test]
fn lots_up_to_the_highest_tip_are_what_its_chain_names() {
    let above = Lot { source: LOT.source, sequence: 9 };
    let states = [kept(&[(LOT, shown(1, false)), (above, shown(3, false))], &[(6, 8)]), kept(&[], &[(8, 9)])];
    let merged = merge_states(states);
    assert_eq!(merged.tips[&LOT.source].lot.sequence, 8);
    assert_eq!(merged.lots.keys().copied().collect::<Vec<_>>(), [above]);
}

#[test]
fn a_state_out_of_order_or_with_a_third_digest_or_an_unproven_tip_is_none() {
    let encoded = |kept: &Kept| Kept::of(&kept.encode());
    let good = kept(&[(LOT, shown(1, false)), (LOT, shown(2, false))], &[(6, 8)]);
    assert_eq!(encoded(&good), Some(good));
    let three = [1, 2, 3].map(|digest| (LOT, shown(digest, false)));
    assert_eq!(encoded(&kept(&three, &[])), None);
    assert_eq!(encoded(&kept(&[(LOT, shown(2, false)), (LOT, shown(1, false))], &[])), None);
    assert_eq!(encoded(&kept(&[(LOT, shown(1, false)), (LOT, shown(1, false))], &[])), None);
    assert_eq!(encoded(&kept(&[], &[(6, 8), (7, 8)])), None);
    let mut bare = kept(&[], &[(6, 8)]);
    let tip = Tip { shown: shown(8, false), ..bare.tips[0].clone() };
    bare.tips = vec![tip].try_into().expect("few");
    assert_eq!(encoded(&bare), None);
}

/// Of how many members how many must say the same, written out.
const fn quorum(members: usize) -> usize {
    [0, 1, 2, 2, 3, 4, 4, 5][members]
}

/// One place, seven members, two of whom lie: correct ones acknowledge one digest each, or none. Whatever quorums certify in the old view is
/// all that correct members accept in the next ones, whichever states they merge, also over a view in between.
#[test]
fn what_is_certified_is_never_contradicted_whichever_states_are_merged() {
    let (mut certified, mut split) = (0, 0);
    for seed in 0..5_000 {
        let mut drawn = Drawn::new(seed);
        let members = 4 + usize::try_from(drawn.below(4)).expect("few");
        let (quorum, liars) = (quorum(members), (members - 1) / 3);
        // Who acknowledged what; 0 is nothing. Liars come first and acknowledge all.
        let acked: Vec<u8> = (0..members)
            .map(|_| u8::try_from(drawn.below(7).saturating_sub(3).min(2)).expect("few"))
            .collect();
        let formed = |digest: u8| {
            let correct = acked.iter().skip(liars).filter(|acked| **acked == digest).count();
            correct + liars >= quorum
        };
        let formed: Vec<u8> = [1, 2].into_iter().filter(|digest| formed(*digest)).collect();
        assert!(formed.len() <= 1, "two certificates for one place");
        certified += formed.len();
        let shows = |member: usize, drawn: &mut Drawn| -> Vec<Shown> {
            let digest =
                if member < liars { u8::try_from(drawn.below(3)).expect("few") } else { acked[member] };
            // Certificates that were not formed cannot be shown.
            let has = formed.contains(&digest) && drawn.below(3) == 0;
            if digest == 0 { Vec::new() } else { vec![shown(digest, has)] }
        };
        let pick = |drawn: &mut Drawn| {
            let mut all: Vec<usize> = (0..members).collect();
            while all.len() > quorum {
                let at = usize::try_from(drawn.below(all.len() as u64)).expect("few");
                all.swap_remove(at);
            }
            all
        };
        // Every member of the next view merges states of its own choice.
        let mut next = Vec::new();
        for _ in 0..members {
            let quorum = pick(&mut drawn);
            let states: Vec<Vec<Shown>> = quorum.iter().map(|member| shows(*member, &mut drawn)).collect();
            let states: Vec<&[Shown]> = states.iter().map(Vec::as_slice).collect();
            next.push(verdict(&states));
        }
        // Nobody resumes there: liars show what they like, the others what they were shown, and all merge again.
        let mut last = Vec::new();
        for _ in 0..members {
            let quorum = pick(&mut drawn);
            let states: Vec<Vec<Shown>> = quorum
                .iter()
                .map(|member| match &next[*member] {
                    Some(verdict) if *member >= liars => verdict.shown(),
                    Some(_) => shows(0, &mut drawn),
                    None => Vec::new(),
                })
                .collect();
            let states: Vec<&[Shown]> = states.iter().map(Vec::as_slice).collect();
            last.push(verdict(&states));
        }
        for verdict in next.iter().chain(&last) {
            split += usize::from(matches!(verdict, Some(Verdict::Neither(_))));
            for certified in &formed {
                let other = Hash([3 - certified; 32]);
                let verdict = verdict.as_ref().expect("a correct signer is among the states");
                assert!(!verdict.allows(&other), "seed {seed}: another digest than the certified one");
            }
        }
    }
    assert!(certified > 250 && split > 250, "{certified} certified, {split} split");
}
