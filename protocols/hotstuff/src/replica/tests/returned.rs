//! What a replica comes back with, when it may act again, and what it proves then.

use std::sync::Arc;

use synod_crypto::{Certificate, Hash, Signature};
use synod_machine::broadcast::{Delivered, Position, Submit};
use synod_machine::{Condition, Effect, Event, Log, Wall};
use synod_quorum::{Epoch, NodeId};
use synod_wire::List;

use super::super::state::{Core, Mode, Shown};
use super::{acting, asked, block, config, genesis, line, outputs, parameters, qc, recovered, safety, told};
use crate::message::{Status, Want};
use crate::proof::{CommitProof, Commitment};
use crate::record::{Mark, Safety};
use crate::statement::Attested;
use crate::{
    Anchor, CheckpointCert, Header, Kind, Message, Pack, Parameters, Qc, Record, Statement, Tc, Timer, View,
};

#[test]
fn a_safety_record_without_its_certificate_takes_nothing_back() {
    // A crash may keep the newest safety record in its slot and lose the log's tail, with the certificate it names.
    let pack = Pack::Chain2Order;
    let line = line(pack, 3, 8);
    let mut records: Vec<Record> = line.iter().map(|(header, body)| block(header, body)).collect();
    let (held, lost) = (&line[1].0, &line[2].0);
    let ordered = Mark { view: held.view, digest: held.digest() };
    records.push(Record::Qc(qc(pack.kind(), held)));
    records.push(Record::Safety(Safety { ordered, ..safety(pack, held) }));
    records.push(Record::Safety(Safety { ordered, ..safety(pack, lost) }));
    let core = recovered(parameters(pack), 0, records);
    assert_eq!((core.high.view, core.safety.high.view), (held.view, held.view));
}

#[test]
fn a_rejoin_counts_only_with_the_promise_that_makes_it_safe() {
    let pack = Pack::Chain2Order;
    let promises = safety(pack, &genesis(pack));
    let cut = vec![Record::Listening, Record::Safety(promises.clone()), Record::Rejoined];
    assert!(!recovered(parameters(pack), 0, cut.clone()).may_act(), "a crash kept a prefix");
    let given_up = Record::Safety(Safety { complained: View(7), ..promises });
    let whole = cut.into_iter().chain([given_up]).collect();
    assert!(recovered(parameters(pack), 0, whole).may_act());
}

/// A replica without memory whose last committed block, of view 5, is directly committed.
fn amnesiac() -> Core {
    let pack = Pack::Chain2Order;
    let line = line(pack, 5, 0);
    let mut records: Vec<Record> = line.iter().map(|(header, body)| block(header, body)).collect();
    let top = &line[4].0;
    records.push(Record::Commit { digest: top.digest(), last: Position(0) });
    records.push(Record::Qc(qc(pack.kind(), top)));
    records.push(Record::Listening);
    records.push(Record::Safety(safety(pack, top)));
    let mut core = recovered(parameters(pack), 0, records);
    acting(&mut core, |core, turn| core.deliver(turn));
    let commitment = Some(Arc::new(Commitment::Direct(qc(Kind::Order, top))));
    core.chain.update(5, |link| link.commitment = commitment);
    core
}

fn show(core: &mut Core, from: u32, qc: u64, tc: u64) {
    let shown = Shown { qc: View(qc), tc: View(tc) };
    acting(core, |core, turn| core.on_shown(NodeId(from), shown, turn));
}

fn hold_tc(core: &mut Core, view: u64) {
    let high = Qc::clone(&core.high);
    core.tc = Some(Arc::new(Tc { epoch: Epoch(0), view: View(view), complaints: List::default(), high }));
}

#[test]
fn what_a_quorum_shows_first_decides_when_a_replica_without_memory_acts_again() {
    let mut core = amnesiac();
    (1..3).for_each(|member| show(&mut core, member, 3, 0));
    assert!(!core.may_act(), "two of three others are no quorum");
    core.chain.update(5, |link| link.commitment = None);
    show(&mut core, 3, 3, 0);
    (1..4).for_each(|member| show(&mut core, member, 9, 0));
    assert!(!core.may_act(), "the last block is not proved");
    let top = Header::clone(&core.chain.top().header);
    let commitment = Some(Arc::new(Commitment::Direct(qc(Kind::Order, &top))));
    core.chain.update(5, |link| link.commitment = commitment);
    acting(&mut core, |core, turn| core.try_rejoin(turn));
    assert!(core.may_act(), "5 lies two above the 3 that was shown, whatever came since");
    assert_eq!(core.safety.complained, View(6));
}

#[test]
fn a_term_given_up_that_is_shown_counts_like_a_certified_view() {
    let mut core = amnesiac();
    show(&mut core, 1, 3, 4);
    show(&mut core, 2, 3, 0);
    show(&mut core, 3, 3, 0);
    assert!(!core.may_act(), "a TC that nobody proved yet may be a lie, or be true");
    hold_tc(&mut core, 4);
    acting(&mut core, |core, turn| core.try_rejoin(turn));
    assert!(!core.may_act(), "5 is only one above the 4 that was given up");
    assert!(matches!(core.mode, Mode::Listening { .. }));
}

#[test]
fn after_a_rejoin_a_forgotten_vote_of_a_view_given_up_is_no_sign_of_a_rollback() {
    let mut core = amnesiac();
    (1..4).for_each(|member| show(&mut core, member, 3, 0));
    assert!(core.may_act() && core.safety.complained == View(6));
    let checked = |core: &mut Core, view: u64| {
        let vote = Statement::Vote { view: View(view), digest: Hash([3; 32]) };
        let top = core.chain.top().header.clone();
        let status = Status {
            height: top.height,
            view: top.view,
            high: Qc::clone(&core.high),
            tc: None,
            stable: Position(0),
            yours: Some((vote, Signature([1; 64]))),
        };
        let event = Event::Message { from: NodeId(1), message: Message::Status(status) };
        told(core, event).iter().any(|effect| matches!(effect, Effect::Compute(_)))
    };
    assert!(!checked(&mut core, 6), "it votes for nothing at 6 any more");
    assert!(checked(&mut core, 7), "a vote it may make again must be in its log");
}

/// The certified state behind the block at `position`, which closes it.
fn anchor(position: u64, header: &Header) -> Anchor {
    let state = Attested {
        position: Position(position),
        view: header.view,
        digest: header.digest(),
        index: header.count,
        root: Hash([5; 32]),
    };
    let votes = (0..3).map(|id| (NodeId(id), Signature([7; 64])));
    let certificate = CheckpointCert { epoch: Epoch(0), attested: Certificate::assemble(state, votes) };
    Anchor { certificate, header: header.clone() }
}

#[test]
fn a_user_that_fetched_a_state_above_the_log_is_landed_with_and_no_other_is() {
    let pack = Pack::Chain2Order;
    let line = line(pack, 6, 8);
    let records = [
        block(&line[0].0, &line[0].1),
        Record::Commit { digest: line[0].0.digest(), last: Position(1) },
        Record::Checkpoint(anchor(6, &line[5].0)),
    ];
    let numbers = Parameters { checkpoint_every: 6, ..parameters(pack) };
    let mut core = recovered(numbers.clone(), 6, records.to_vec());
    let said = outputs(told(&mut core, Event::Start));
    assert!(matches!(&said[..], [Delivered::Stable(at)] if at.position == Position(6)), "{said:?}");
    assert_eq!(core.chain.top().digest, line[5].0.digest(), "the chain starts again there");
    let mut short = recovered(numbers.clone(), 1, records.to_vec());
    assert!(outputs(told(&mut short, Event::Start)).is_empty(), "the user did not get there");
    assert_eq!(short.chain.top().digest, line[0].0.digest());
    let mut records = records.into_iter();
    let log = Log { condition: Condition::Clean, records: &mut records };
    let refused = Core::recover(config(numbers.clone(), 7), numbers.rules.rules(), log);
    assert!(refused.is_err(), "nobody told the user of position 7");
}

/// The log of a replica that retains the blocks 5 to 10 of one item each; its stable checkpoint is 6.
fn retained() -> Vec<Record> {
    let pack = Pack::Chain2Order;
    let line = line(pack, 10, 8);
    let mut records: Vec<Record> = line[4..].iter().map(|(header, body)| block(header, body)).collect();
    records.insert(1, Record::Commit { digest: line[4].0.digest(), last: Position(5) });
    records.push(Record::Commit { digest: line[9].0.digest(), last: Position(10) });
    records.push(Record::Checkpoint(anchor(6, &line[5].0)));
    records.push(Record::Qc(qc(pack.kind(), &line[9].0)));
    records.push(Record::Safety(safety(pack, &line[9].0)));
    records
}

#[test]
fn a_user_below_the_retained_chain_starts_from_the_stable_state() {
    let parameters = Parameters { checkpoint_every: 6, ..parameters(Pack::Chain2Order) };
    let mut core = recovered(parameters, 2, retained());
    let told = outputs(told(&mut core, Event::Start));
    assert!(matches!(&told[..], [Delivered::Jump(to)] if to.position == Position(6)), "{told:?}");
}

#[test]
fn a_user_that_is_stuck_starts_from_the_newest_certified_state_though_the_blocks_below_it_are_here() {
    let pack = Pack::Chain2Order;
    let line = line(pack, 10, 8);
    let mut core = recovered(Parameters { checkpoint_every: 3, ..parameters(pack) }, 5, retained());
    core.checkpoints.certify(Arc::new(anchor(9, &line[8].0).certificate));
    let given = outputs(told(&mut core, Event::Start));
    assert!(given.iter().all(|given| !matches!(given, Delivered::Jump(_))), "{given:?}");
    let stuck = outputs(told(&mut core, Event::Input(Submit::Stuck)));
    assert!(matches!(&stuck[..], [Delivered::Jump(to)] if to.position == Position(9)), "{stuck:?}");
    assert!(outputs(told(&mut core, Event::Input(Submit::Stuck))).is_empty(), "it is told once");
}

#[test]
fn a_user_that_is_stuck_where_no_certificate_came_starts_from_the_certified_state_of_another_member() {
    let pack = Pack::Chain2Order;
    let line = line(pack, 10, 8);
    let start = || {
        let mut core = recovered(Parameters { checkpoint_every: 3, ..parameters(pack) }, 5, retained());
        told(&mut core, Event::Start);
        core.delivery.position = Position(7);
        core
    };
    let newest = Arc::new(anchor(9, &line[8].0));
    let answered = |core: &mut Core, anchor: &Arc<Anchor>| {
        let anchor = Arc::clone(anchor);
        acting(core, |core, turn| core.on_anchor(NodeId(1), anchor, turn));
        outputs(told(core, Event::Timer(Timer::Linger(View::GENESIS))))
    };
    let mut core = start();
    assert!(answered(&mut core, &newest).is_empty(), "a user that goes on needs no other state");
    let asked = told(&mut core, Event::Input(Submit::Stuck));
    let anchor_wanted = |m: &Message| matches!(m, Message::Fetch(Want::Range { from: 0, count: 1 }));
    let asks = asked.iter().any(|e| matches!(e, Effect::Send { message, .. } if anchor_wanted(message)));
    assert!(asks && !asked.iter().any(|e| matches!(e, Effect::Output(_))), "{asked:?}");
    assert!(answered(&mut core, &Arc::new(anchor(6, &line[5].0))).is_empty(), "the user was given that");
    let jump = answered(&mut core, &newest);
    assert!(matches!(&jump[..], [Delivered::Jump(to)] if to.position == Position(9)), "{jump:?}");
    let mut core = start();
    told(&mut core, Event::Input(Submit::Stuck));
    told(&mut core, Event::Input(Submit::Applied { position: Position(6), root: None }));
    assert!(answered(&mut core, &newest).is_empty(), "a user that applies something goes on");
}

/// A block on `parent` in the tree, with its certificate.
fn certified(core: &mut Core, parent: &Header, view: u64, size: usize) -> Header {
    let (header, body) = super::child(Pack::Chain3, parent, view, size);
    let mut block = crate::tree::Block::new(Arc::new(header.clone()));
    block.body = Some(body);
    block.qc = Some(Arc::new(qc(Pack::Chain3.kind(), &header)));
    assert!(core.tree.insert(header.digest(), block, &[]).is_ok());
    header
}

#[test]
fn a_commit_is_proved_though_late_votes_certified_another_block_beside_the_one_that_made_it() {
    // Both orders of the digests come about among these sizes.
    for size in 1..16 {
        let pack = Pack::Chain3;
        let (first, body) = super::child(pack, &genesis(pack), 1, 8);
        let committed = Record::Commit { digest: first.digest(), last: Position(1) };
        let mut core = recovered(parameters(pack), 1, vec![block(&first, &body), committed]);
        let second = certified(&mut core, &first, 2, 8);
        certified(&mut core, &second, 3, size);
        certified(&mut core, &second, 4, 8);
        let proof = core.direct_proof(1).expect("three certified blocks of views in a row");
        let views = |commitment: &Commitment| match commitment {
            Commitment::ThreeChain { child, grandchild, qc } => [child.view.0, grandchild.view.0, qc.view.0],
            other => unreachable!("{other:?} proves no commit of this pack"),
        };
        assert_eq!(views(&proof.commitment), [2, 3, 3]);
    }
}

#[test]
fn a_member_that_misses_a_block_which_nobody_gives_asks_for_the_range_and_so_for_a_state() {
    let pack = Pack::Chain2Order;
    let line = line(pack, 6, 8);
    let mut core = recovered(parameters(pack), 0, Vec::new());
    told(&mut core, Event::Start);
    for (header, body) in &line[3..] {
        let mut block = crate::tree::Block::new(Arc::new(header.clone()));
        block.body = Some(Arc::clone(body));
        assert!(core.tree.insert(header.digest(), block, &[]).is_ok());
    }
    (core.high, core.view) = (Arc::new(qc(pack.kind(), &line[5].0)), View(7));
    let mut asks = || {
        let said = told(&mut core, Event::Timer(Timer::Status));
        let range = |e: &Effect<Core>| {
            matches!(e, Effect::Send { message: Message::Fetch(Want::Range { from: 1, .. }), .. })
        };
        let block =
            |e: &Effect<Core>| matches!(e, Effect::Send { message: Message::Fetch(Want::Blocks(_)), .. });
        (said.iter().any(block), said.iter().any(range))
    };
    assert_eq!(asks(), (true, false), "most often somebody gives it");
    assert!(asks().1, "the same block is missing still");
}

#[test]
fn a_certified_state_that_the_user_may_have_dropped_does_not_become_stable() {
    let pack = Pack::Chain2Order;
    let line = line(pack, 10, 8);
    let settled = |given: u64| {
        let mut core = recovered(Parameters { checkpoint_every: 3, ..parameters(pack) }, 5, retained());
        told(&mut core, Event::Start);
        core.delivery.position = Position(given);
        core.checkpoints.certify(Arc::new(anchor(9, &line[8].0).certificate));
        acting(&mut core, |core, turn| core.on_applied(Position(9), Some(Hash([5; 32])), turn));
        core.checkpoints.stable_position()
    };
    assert_eq!(settled(9 + 3 * 16 - 1), Position(9), "the user keeps it and the 15 above");
    assert_eq!(settled(9 + 3 * 16), Position(6), "the user may keep the 16 above it and not it");
}

#[test]
fn a_user_that_comes_back_hears_again_what_is_stable() {
    let parameters = Parameters { checkpoint_every: 6, ..parameters(Pack::Chain2Order) };
    for (resume, hears) in [(7, 1), (6, 1), (5, 0)] {
        let mut core = recovered(parameters.clone(), resume, retained());
        let said = outputs(told(&mut core, Event::Start));
        let stable = said.iter().filter(|s| matches!(s, Delivered::Stable(c) if c.position == Position(6)));
        assert_eq!(stable.count(), hears, "{resume}");
    }
}

#[test]
fn blocks_of_the_basic_pack_can_be_proved_after_a_restart() {
    let pack = Pack::Basic;
    let line = line(pack, 3, 0);
    let mut records: Vec<Record> = line.iter().map(|(header, body)| block(header, body)).collect();
    records.extend(line.iter().map(|(header, _)| Record::Qc(qc(Kind::Commit, header))));
    records.push(Record::Commit { digest: line[2].0.digest(), last: Position(0) });
    records.push(Record::Qc(qc(pack.kind(), &line[2].0)));
    records.push(Record::Safety(Safety { decided: View(3), ..safety(pack, &line[2].0) }));
    let mut core = recovered(parameters(pack), 0, records);
    let mut again = Vec::new();
    core.snapshot(&mut |record| again.push(record));
    let mut again = recovered(parameters(pack), 0, again);
    for core in [&mut core, &mut again] {
        let answers = asked(core, Want::Range { from: 1, count: 2 });
        let whole =
            |m: &Message| matches!(m, Message::Blocks(b) if b.headers.len() == 2 && b.proof.is_some());
        assert!(answers.iter().any(whole), "{answers:?}");
    }
}

#[test]
fn a_proof_of_another_block_at_a_committed_height_halts_the_replica() {
    let pack = Pack::Chain2Order;
    for (view, height) in [(5, 4), (9, 3), (4, 6)] {
        let mut core = amnesiac();
        core.mode = Mode::Acting;
        let header = Header { view: View(view), height, time: Wall(77), ..line(pack, 1, 0)[0].0.clone() };
        let commitment = Commitment::Direct(qc(Kind::Order, &header));
        let proof = CommitProof { header, commitment };
        acting(&mut core, |core, turn| core.on_proof(NodeId(1), &proof, turn));
        assert_eq!(core.mode, Mode::Halted, "view {view} height {height}");
    }
    let mut core = amnesiac();
    let header = Header::clone(&core.chain.at(4).expect("held").header);
    let commitment = Commitment::Direct(qc(Kind::Order, &header));
    let proof = CommitProof { header, commitment };
    acting(&mut core, |core, turn| core.on_proof(NodeId(1), &proof, turn));
    assert!(core.mode != Mode::Halted, "a proof of what is committed here contradicts nothing");
}

#[test]
fn a_proof_asked_for_a_block_that_is_forgotten_is_answered() {
    let mut core =
        recovered(Parameters { checkpoint_every: 6, ..parameters(Pack::Chain2Order) }, 6, retained());
    core.delivery.proving.insert(Position(2));
    acting(&mut core, |core, turn| core.prove_waiting(false, turn));
    let told = outputs(told(&mut core, Event::Timer(Timer::Linger(View::GENESIS))));
    assert_eq!(told, [Delivered::Proof { position: Position(2), proof: None }]);
    assert!(core.delivery.proving.is_empty());
}
