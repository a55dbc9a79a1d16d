//! Leaders that do as little as they can (TL12), and what becomes of members whose terms are given up (TL20).

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_hotstuff::{Body, Header, Message, Proof, Record, Statement, Tc, Terms, View};
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, settles, stage, warm};
use synod_trial::stage::{Fate, Pen, Sent, Stage, What, Why};

/// One-view terms: the bad member leads every fourth view.
const ONE_VIEW: &[(&str, i64)] = &[("term_views", 1), ("reputation", 0)];
const BAD: NodeId = NodeId(1);

/// Every header an honest member proposed or stored, by digest.
fn headers(stage: &Stage) -> BTreeMap<Hash, Header> {
    let of = |what: &What| match what {
        What::Sent(_, Message::Propose { header, .. }) | What::Kept(Record::Block { header, .. }) => {
            Some((header.digest(), header.clone()))
        }
        _ => None,
    };
    stage.diary().events().iter().filter_map(|event| of(&event.what)).collect()
}

/// The digests on the committed chain of member 0.
fn committed(stage: &Stage, headers: &BTreeMap<Hash, Header>) -> BTreeSet<Hash> {
    let diary = stage.diary();
    let tips = diary.of(NodeId(0)).filter_map(|event| match &event.what {
        What::Kept(Record::Commit { digest, .. }) => Some(*digest),
        _ => None,
    });
    let mut chain = BTreeSet::new();
    for tip in tips {
        let mut at = Some(tip);
        while let Some(digest) = at.filter(|digest| chain.insert(*digest)) {
            at = headers.get(&digest).map(|header| header.parent);
        }
    }
    chain
}

/// Runs a load under a bad member. Its commands are answered, and few blocks of honest leaders are lost.
fn bears(system: &str, how: &str, lie: impl FnMut(&Sent<'_>, &Pen<'_>) -> Fate + 'static) {
    let mut stage = warm(system, 4, ONE_VIEW);
    let lies = stage.corrupt(BAD, lie);
    for _ in 0..30 {
        (0..2).for_each(|guest| stage.ask(guest));
        stage.run(Span::millis(40));
    }
    assert!(stage.answered(Span::secs(8)), "{system}, {how}: {} commands wait", stage.book().open());
    stage.run(Span::millis(500));
    assert!(lies.count() > 3, "{system}, {how}: {} times", lies.count());
    let headers = headers(&stage);
    let chain = committed(&stage, &headers);
    let honest = |header: &&Header| NodeId::from(header.proposer) != BAD;
    let lost = headers.values().filter(honest).filter(|header| !chain.contains(&header.digest())).count();
    let whole = headers.values().filter(honest).count() - lost;
    let diary = stage.diary();
    let given_up = diary.entries(NodeId(0)).filter(|(_, entry)| entry.why == Why::Tc).count();
    assert!(whole > 10, "{system}, {how}: {whole} blocks of honest leaders committed");
    // Those are the newest ones, which nothing has committed yet.
    assert!(lost <= 2, "{system}, {how}: {lost} blocks of honest leaders lost, {given_up} views given up");
    drop(diary);
    let _report = settles(stage);
}

/// TL12: a leader that never proposes.
#[test]
fn a_silent_leader_loses_few_blocks_of_the_others() {
    for system in SYSTEMS {
        bears(system, "silent", |sent, _| match sent.message {
            Message::Propose { .. } | Message::Body { .. } | Message::Advance(_) | Message::Phase(_) => {
                Fate::Drop
            }
            _ => Fate::Pass,
        });
    }
}

/// TL12: a leader just inside its timeout.
#[test]
fn a_leader_at_nearly_the_timeout_loses_few_blocks_of_the_others() {
    for system in SYSTEMS {
        bears(system, "slow", |sent, _| match sent.message {
            Message::Propose { .. } => Fate::Delay(Span::millis(90)),
            _ => Fate::Pass,
        });
    }
}

/// TL12: a leader that proposes to f + 1 members, itself among them.
#[test]
fn a_leader_that_proposes_to_a_weak_quorum_loses_few_blocks_of_the_others() {
    for system in SYSTEMS {
        bears(system, "to f + 1", |sent, _| match sent.message {
            Message::Propose { .. } if sent.to != NodeId(2) => Fate::Drop,
            _ => Fate::Pass,
        });
    }
}

/// TL12: a leader that proposes nothing but empty blocks.
#[test]
fn a_leader_of_empty_blocks_delays_no_command_for_long() {
    for system in SYSTEMS {
        bears(system, "empty", |sent, pen| match sent.message {
            Message::Propose { header, .. } if NodeId::from(header.proposer) == BAD => {
                let root = Body::empty().root;
                let header = Header { root, bytes: 0, count: 0, ..header.clone() };
                let (view, digest) = (header.view, header.digest());
                let signature = pen.sign(Statement::Proposal { view, digest });
                Fate::Say(vec![Message::Propose { header, signature }])
            }
            _ => Fate::Pass,
        });
    }
}

/// The headers that members proposed, by view.
fn proposals(stage: &Stage) -> Vec<Header> {
    let sent = |what: &What| match what {
        What::Sent(_, Message::Propose { header, .. }) => Some((header.view, header.clone())),
        _ => None,
    };
    let by_view: BTreeMap<View, Header> =
        stage.diary().events().iter().filter_map(|event| sent(&event.what)).collect();
    by_view.into_values().collect()
}

/// Load for a while, whatever becomes of it.
fn load(stage: &mut Stage, lasts: Span) {
    let until = stage.now() + lasts;
    while stage.now() < until {
        (0..2).for_each(|guest| stage.ask(guest));
        stage.run(Span::millis(15));
    }
}

/// TL20: the list that stands against a member when this header was built.
fn benched(header: &Header, member: NodeId, terms: Terms) -> bool {
    header.list.iter().any(|s| NodeId::from(s.member) == member && s.until > terms.of(header.view))
}

/// TL20: a dead member's terms are given up twice, then it is passed over; alive again, it leads and loses its record.
#[test]
fn a_dead_member_is_benched_and_leads_again_when_it_is_back() {
    for system in &SYSTEMS[2..] {
        let terms = Terms::new(2);
        let mut stage = warm(system, 4, &[("term_views", 2)]);
        let dead = NodeId(2);
        stage.world().crash(dead, synod_sim::Loss::Nothing, None);
        load(&mut stage, Span::secs(2));
        let until = proposals(&stage);
        let list = until.iter().filter(|header| benched(header, dead, terms)).count();
        assert!(list > 4, "{system}: the dead member stands on the list of {list} blocks");
        let led = |headers: &[Header], from: View| -> usize {
            headers.iter().filter(|h| h.view > from && NodeId::from(h.proposer) == dead).count()
        };
        let gone = until.last().map(|header| header.view).expect("blocks were proposed");
        stage.world().restart(dead);
        load(&mut stage, Span::secs(2));
        let after = proposals(&stage);
        assert!(led(&after, gone) > 4, "{system}: it led {} blocks since", led(&after, gone));
        let last = after.last().expect("blocks were proposed");
        assert!(!last.list.iter().any(|s| NodeId::from(s.member) == dead), "{system}: its record stays");
        // The first block of a term, and its commit, leave the term's leader in place.
        let by_digest: BTreeMap<Hash, &Header> =
            after.iter().map(|header| (header.digest(), header)).collect();
        let mut followed = 0;
        for header in after.iter().filter(|header| header.tc.is_none()) {
            let Some(parent) = by_digest.get(&header.parent) else { continue };
            if terms.of(parent.view) == terms.of(header.view) {
                followed += 1;
                assert_eq!(parent.proposer, header.proposer, "{system}: the leader of a term changed");
            }
        }
        assert!(followed > 20, "{system}: {followed} blocks follow one another in a term");
        let _report = settles(stage);
    }
}

/// TL20: a member that comes back by a checkpoint, with others and itself on the list, votes for the lists of others and
/// nobody votes against its own.
#[test]
fn a_member_that_installs_a_checkpoint_agrees_about_the_bench() {
    for system in &SYSTEMS[2..] {
        let numbers = &[("term_views", 2), ("checkpoint_every", 16), ("retain_blocks", 4)];
        let mut stage = stage(system, 4, numbers);
        let away = NodeId(3);
        stage.run(Span::millis(20));
        load(&mut stage, Span::millis(200));
        stage.world().crash(away, synod_sim::Loss::Nothing, None);
        load(&mut stage, Span::secs(2));
        let terms = Terms::new(2);
        assert!(proposals(&stage).iter().any(|header| benched(header, away, terms)), "{system}: not benched");
        let (at, back) = (stage.now(), stage.view());
        stage.world().restart(away);
        load(&mut stage, Span::secs(2));
        let diary = stage.diary();
        let since = |event: &&synod_trial::stage::Event| event.node == away && event.at > at;
        let events = || diary.events().iter().filter(since);
        assert!(events().any(|event| matches!(event.what, What::Jumped(_))), "{system}: no checkpoint");
        let votes = events()
            .filter(|e| matches!(&e.what, What::Sent(_, Message::Vote { view, .. }) if view.0 > back));
        assert!(votes.count() > 5, "{system}: it does not vote");
        let led = diary.entries(NodeId(0)).filter(|(t, entry)| *t > at && entry.leader == Some(away)).count();
        assert!(led > 0, "{system}: it never leads again");
        let blamed = |event: &&synod_trial::stage::Event| matches!(event.what, What::Blamed(..));
        assert_eq!(diary.events().iter().filter(blamed).count(), 0, "{system}: somebody was blamed");
        drop(diary);
        let _report = settles(stage);
    }
}

/// The first view of the next term that is plainly this benched member's, as the newest blocks see it.
fn next_term_of(stage: &Stage, member: NodeId, terms: Terms) -> Option<View> {
    let until = |header: &Header| {
        header.list.iter().filter(|s| NodeId::from(s.member) == member).map(|s| s.until).max()
    };
    let headers = proposals(stage);
    let until = headers.last().and_then(until)?;
    let now = terms.of(View(stage.view()));
    (now + 1..until).find(|term| term % 4 == u64::from(member.0)).map(|term| View(term * 2))
}

/// TL20: the term before a benched member's turn ends in a certificate for two members and in complaints for the two
/// others. Those see another leader than these; at most that one term is lost.
#[test]
fn a_term_entered_in_both_ways_has_one_leader_for_each() {
    for system in &SYSTEMS[2..] {
        let terms = Terms::new(2);
        let mut stage = warm(system, 4, &[("term_views", 2)]);
        let benched = NodeId(2);
        stage.world().crash(benched, synod_sim::Loss::Nothing, None);
        let mut first = None;
        for _ in 0..60 {
            stage.ask(0);
            assert!(stage.answered(Span::secs(2)), "{system}: a command waits");
            first = next_term_of(&stage, benched, terms);
            if first.is_some() {
                break;
            }
        }
        let first = first.expect("a member that is away is benched before its turn");
        stage.world().restart(benched);
        stage.run(Span::millis(50));
        let end = first.0 - 1;
        assert!(stage.view() <= end, "{system}: the term before is over already");
        let certifies = |id: NodeId| id.0 == 0 || id.0 == 3;
        let split = stage.direct(move |sent| match sent.message {
            Message::Vote { view, .. } if view.0 == end && certifies(sent.to) => {
                Fate::Delay(Span::millis(98))
            }
            Message::Vote { view, .. } if view.0 == end => Fate::Drop,
            Message::Complain { view, .. } | Message::Advance(Proof::Tc(Tc { view, .. }))
                if view.0 == end && certifies(sent.to) =>
            {
                Fate::Drop
            }
            _ => Fate::Pass,
        });
        while stage.view() <= end {
            (0..2).for_each(|guest| stage.ask(guest));
            stage.run(Span::millis(8));
        }
        assert!(stage.answered(Span::secs(4)), "{system}: commands wait");
        let entries: BTreeSet<(bool, Option<NodeId>)> = (0..4)
            .flat_map(|id| stage.diary().entries(NodeId(id)).collect::<Vec<_>>())
            .filter(|(_, entry)| entry.view == first.0)
            .map(|(_, entry)| (entry.why == Why::Tc, entry.leader))
            .collect();
        let both = BTreeSet::from([(false, Some(NodeId(3))), (true, Some(benched))]);
        assert_eq!(entries, both, "{system}: the leaders of view {}", first.0);
        let lost =
            stage.diary().entries(NodeId(0)).filter(|(_, e)| e.view > first.0 && e.why == Why::Tc).count();
        assert!(lost <= 1, "{system}: {lost} terms were lost behind it");
        assert!(split.count() > 6, "{system}: {}", split.count());
        let _report = settles(stage);
    }
}
