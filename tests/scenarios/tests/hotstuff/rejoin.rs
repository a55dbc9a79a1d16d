//! Members without memory (TC9): a lost disk is listened for until nothing that was promised can be contradicted, with
//! the others well, with one more of them down, and never with two of four forgetful.

use synod_hotstuff::Message;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, warm};
use synod_sim::{Harm, Loss};
use synod_trial::stage::{Event, Stage, What};

/// Loses a member's disk; it starts again with what it has.
fn wipe(stage: &mut Stage, member: NodeId) {
    stage.world().crash(member, Loss::Drawn, Some(Span::millis(40)));
    assert!(stage.world().harm(member, Harm::Wipe), "a disk can be lost");
}

/// Load for a while, whatever becomes of it.
fn load(stage: &mut Stage, lasts: Span) {
    let until = stage.now() + lasts;
    while stage.now() < until {
        (0..2).for_each(|guest| stage.ask(guest));
        stage.run(Span::millis(20));
    }
}

/// What a member promised since then: votes, orders, complaints, proposals.
fn promises(stage: &Stage, member: NodeId, from: Time) -> usize {
    let promise = |event: &&Event| {
        event.at > from
            && matches!(
                event.what,
                What::Sent(
                    _,
                    Message::Vote { .. }
                        | Message::Order { .. }
                        | Message::Complain { .. }
                        | Message::Propose { .. }
                )
            )
    };
    stage.diary().of(member).filter(promise).count()
}

#[test]
fn a_member_that_lost_its_disk_listens_and_then_takes_part() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("reputation", 0)]);
        let member = NodeId(3);
        load(&mut stage, Span::millis(200));
        let at = stage.now();
        wipe(&mut stage, member);
        load(&mut stage, Span::secs(6));
        let back = stage.diary().rule_at(member, "J_rejoin", at);
        assert!(stage.diary().rule_at(member, "J_listen", at).is_some(), "{system}: it took itself for new");
        let back = back.unwrap_or_else(|| unreachable!("{system}: it listens for ever"));
        let early = stage.diary().of(member).filter(|event| event.at > at && event.at < back).any(|event| {
            matches!(
                event.what,
                What::Sent(_, Message::Vote { .. } | Message::Order { .. } | Message::Complain { .. })
            )
        });
        assert!(!early, "{system}: it promised something while it listened");
        assert!(promises(&stage, member, back) > 5, "{system}: it takes no part");
        assert!(stage.answered(Span::secs(4)), "{system}: commands wait");
    }
}

#[test]
fn with_another_member_down_it_waits_says_so_and_goes_on_later() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("reputation", 0)]);
        let (member, down) = (NodeId(3), NodeId(1));
        let at = stage.now();
        wipe(&mut stage, member);
        stage.world().crash(down, Loss::Nothing, None);
        load(&mut stage, Span::secs(4));
        assert_eq!(promises(&stage, member, at), 0, "{system}: it promised something");
        let says = stage.diary().of(member).any(|event| matches!(event.what, What::Noted("listening", _)));
        assert!(says, "{system}: nobody is told");
        let before = stage.book().highest.0;
        stage.world().restart(down);
        load(&mut stage, Span::secs(8));
        assert!(stage.book().highest.0 > before, "{system}: nothing commits");
        assert!(stage.diary().rule_at(member, "J_rejoin", at).is_some(), "{system}: it listens for ever");
        assert!(stage.answered(Span::secs(6)), "{system}: commands wait");
    }
}

#[test]
fn two_of_four_without_memory_stop_the_cluster() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("reputation", 0)]);
        let at = stage.now();
        let lost = [NodeId(1), NodeId(3)];
        lost.into_iter().for_each(|member| wipe(&mut stage, member));
        stage.run(Span::millis(30));
        let before = stage.book().highest.0;
        load(&mut stage, Span::secs(6));
        for member in lost {
            assert!(stage.diary().rule_at(member, "J_listen", at).is_some(), "{system}");
            assert_eq!(promises(&stage, member, at), 0, "{system}: {} promised something", member.0);
        }
        assert_eq!(stage.book().highest.0, before, "{system}: two of four committed");
    }
}
