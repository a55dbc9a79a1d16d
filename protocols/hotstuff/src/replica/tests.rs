//! One replica, looked at from inside: what it serves, what it comes back with, when it may act again.

use std::sync::Arc;

use synod_crypto::{Certificate, Hash, Signature};
use synod_machine::broadcast::{Delivered, Position, Submit, Ticket};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Log, Machine, Message as _, QueueSpec, Rng, Time, Turn, Wall};
use synod_quorum::{Epoch, Member, NodeId, NodeSet, PublicKey, Roster};
use synod_wire::{Bytes, List, Wire};

use super::state::{Core, Mode, Shown};
use crate::block::Body;
use crate::message::{Proof, Status, Want};
use crate::proof::{CommitProof, Commitment};
use crate::proven::Proven;
use crate::record::{Mark, Safety};
use crate::statement::Attested;
use crate::tree::Block;
use crate::{
    Anchor, CheckpointCert, Config, Header, Identity, Item, Kind, Message, Pack, Parameters, Qc, Record,
    Statement, Tc, Timer, View,
};

const CLUSTER: Hash = Hash([9; 32]);

fn parameters(pack: Pack) -> Parameters {
    Parameters { term_views: 1, reputation: false, ..Parameters::of(pack, 4) }
}

fn config(parameters: Parameters, resume: u64) -> Config {
    let member = |id: u8| Member { key: PublicKey([id; 32]), power: 1 };
    let roster = Roster::new(Epoch(0), (0..4).map(member).collect()).expect("four members");
    let identity = Identity { own: NodeId(0), cluster: CLUSTER, roster };
    Config::new(identity, parameters, Position(resume)).expect("sound parameters")
}

/// A replica that comes back with these records and a user that holds `resume`.
fn recovered(parameters: Parameters, resume: u64, records: Vec<Record>) -> Core {
    let condition = if records.is_empty() { Condition::Fresh } else { Condition::Clean };
    let rules = parameters.rules.rules();
    let mut records = records.into_iter();
    let log = Log { condition, records: &mut records };
    Core::recover(config(parameters, resume), rules, log).expect("a sound log")
}

fn fresh(pack: Pack) -> Core {
    recovered(parameters(pack), 0, Vec::new())
}

fn genesis(pack: Pack) -> Header {
    Header::genesis(Epoch(0), pack.kind())
}

fn qc(kind: Kind, of: &Header) -> Qc {
    let votes = (0..3).map(|id| (NodeId(id), Signature([7; 64])));
    Qc::assemble(Epoch(0), (kind, of.view, of.digest()), votes)
}

/// A block of `view` on `parent`, and its body of one item of `size` bytes; none for size 0.
fn child(pack: Pack, parent: &Header, view: u64, size: usize) -> (Header, Arc<Body>) {
    let payload = vec![u8::try_from(view % 251).expect("small"); size];
    let body = match Item::new(Bytes::from(payload)) {
        Some(item) => Body::pack(vec![item]),
        None => Body::empty(),
    };
    let justify = if parent.view == View::GENESIS {
        Qc::empty(Epoch(0), pack.kind(), parent.digest())
    } else {
        qc(pack.kind(), parent)
    };
    let header = Header {
        view: View(view),
        height: parent.height + 1,
        parent: parent.digest(),
        justify,
        root: body.root,
        bytes: if size == 0 { 0 } else { u32::try_from(body.bytes.len()).expect("small") },
        count: u32::try_from(body.items.len()).expect("small"),
        ..genesis(pack)
    };
    (header, Arc::new(body))
}

/// A chain of `length` blocks of one item of `size` bytes each, in views 1, 2, ..
fn line(pack: Pack, length: u64, size: usize) -> Vec<(Header, Arc<Body>)> {
    let mut line: Vec<(Header, Arc<Body>)> = Vec::new();
    for view in 1..=length {
        let parent = line.last().map_or_else(|| genesis(pack), |(header, _)| header.clone());
        line.push(child(pack, &parent, view, size));
    }
    line
}

fn safety(pack: Pack, high: &Header) -> Safety {
    let high = Mark { view: high.view, digest: high.digest() };
    Safety { high, ..Safety::fresh(Epoch(0), genesis(pack).digest(), pack.kind()) }
}

fn block(header: &Header, body: &Arc<Body>) -> Record {
    Record::Block { header: header.clone(), body: (!header.is_empty()).then_some(body.name) }
}

fn told(core: &mut Core, event: Event<Core>) -> Vec<Effect<Core>> {
    effects(core, event, Time(1_000_000_000))
}

fn acting(core: &mut Core, act: impl FnOnce(&mut Core, &mut Turn<'_, Core>)) -> Vec<Effect<Core>> {
    let (mut rng, mut said) = (Rng::new(0, NodeId(0), 0), Vec::new());
    act(core, &mut Turn::new(Time(1_000_000_000), Wall(1_000), &mut rng, &mut said));
    said
}

fn outputs(effects: Vec<Effect<Core>>) -> Vec<Delivered> {
    let output = |effect| if let Effect::Output(output) = effect { Some(output) } else { None };
    effects.into_iter().filter_map(output).collect()
}

fn asked(core: &mut Core, want: Want) -> Vec<Message> {
    let event = Event::Message { from: NodeId(3), message: Message::Fetch(want) };
    let sent = |effect| if let Effect::Send { message, .. } = effect { Some(message) } else { None };
    told(core, event).into_iter().filter_map(sent).collect()
}

fn fits_its_frame(message: &Message) -> bool {
    let specs = QueueSpec::standard();
    let spec = specs.get(usize::from(message.queue().0)).expect("a standard queue");
    message.encode().len() < usize::try_from(spec.frame_max).expect("small")
}

#[test]
fn an_answer_fits_its_frame_whatever_is_asked_for() {
    let pack = Pack::Chain2Order;
    let mut core = fresh(pack);
    let large: Vec<(Header, Arc<Body>)> =
        (1..=40).map(|view| child(pack, &genesis(pack), view, 1_000_000)).collect();
    for (header, body) in &large {
        let mut block = Block::new(Arc::new(header.clone()));
        block.body = Some(Arc::clone(body));
        assert!(core.tree.insert(header.digest(), block, &[]).is_ok());
    }
    let digests: Vec<Hash> = large.iter().map(|(header, _)| header.digest()).collect();
    let roots: Vec<Hash> = large.iter().map(|(header, _)| header.root).collect();
    let same: Vec<Hash> = roots.iter().map(|_| large[0].0.root).collect();
    let list = |hashes: Vec<Hash>| List::try_from(hashes).expect("short");
    for want in [Want::Blocks(list(digests)), Want::Bodies(list(roots)), Want::Bodies(list(same))] {
        let answers = asked(&mut core, want.clone());
        assert!(!answers.is_empty(), "what fits is answered");
        assert!(answers.iter().all(fits_its_frame), "{want:?}");
    }
}

#[test]
fn a_barrier_waits_for_the_ancestors_that_are_missing_here() {
    let pack = Pack::Chain2Order;
    let mut core = fresh(pack);
    told(&mut core, Event::Start);
    let (missing, _) = child(pack, &genesis(pack), 1, 8);
    let (above, _) = child(pack, &missing, 2, 0);
    core.high = Arc::new(qc(pack.kind(), &above));
    core.safety.high = Mark { view: above.view, digest: above.digest() };
    core.view = above.view.next();
    let added = core.tree.insert(above.digest(), Block::new(Arc::new(above)), &[]);
    assert!(added.is_ok());
    let told = told(&mut core, Event::Input(Submit::Barrier(Ticket(1))));
    assert!(
        !outputs(told).contains(&Delivered::Barrier(Ticket(1))),
        "the missing block may be committed elsewhere"
    );
}

#[test]
fn items_reach_the_leader_of_a_view_whose_evidence_came_before_its_block() {
    let pack = Pack::Chain2Order;
    let mut core = fresh(pack);
    told(&mut core, Event::Start);
    let (late, _) = child(pack, &genesis(pack), 1, 0);
    let certificate = Proven::logged(Arc::new(qc(pack.kind(), &late)));
    acting(&mut core, |core, turn| core.on_qc(&certificate, turn));
    assert_eq!((core.view, core.leader), (View(2), None), "who leads is said by the block");
    let forwards = |effects: Vec<Effect<Core>>| {
        let is_forward = |e: &Effect<Core>| matches!(e, Effect::Send { message: Message::Forward(_), .. });
        effects.iter().filter(|effect| is_forward(effect)).count()
    };
    let payload = Submit::Payload { ticket: Ticket(1), payload: Bytes::from_static(b"x") };
    assert_eq!(forwards(told(&mut core, Event::Input(payload))), 0);
    acting(&mut core, |core, turn| core.add_block(Block::new(Arc::new(late)), NodeSet::EMPTY, turn));
    assert_eq!(forwards(told(&mut core, Event::Timer(Timer::Linger(View(2))))), 1);
    assert!(core.leader.is_some_and(|leader| leader != core.own()));
}

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

#[test]
fn the_chain_holds_all_blocks_between_two_checkpoints() {
    for (pack, blocks_per_item) in
        [(Pack::Chain2Order, 1), (Pack::Chain2, 2), (Pack::Chain3, 3), (Pack::Basic, 1)]
    {
        let parameters = Parameters { checkpoint_every: 10_000, retain_blocks: 1, ..parameters(pack) };
        let core = recovered(parameters, 0, Vec::new());
        assert!(core.chain_max() >= 10_000 * blocks_per_item + 10_000, "{pack:?}");
    }
}

#[test]
fn a_new_view_counts_once_its_certificate_is_verified() {
    let pack = Pack::Basic;
    let mut core = fresh(pack);
    told(&mut core, Event::Start);
    let (above, _) = child(pack, &genesis(pack), 1, 0);
    let entered = |high| Message::NewView { view: View(4), high };
    let (unknown, known) = (qc(pack.kind(), &above), Qc::clone(&core.high));
    told(&mut core, Event::Message { from: NodeId(1), message: entered(unknown) });
    assert!(core.newviews.is_empty(), "a leader that proposed now would not know what it is told");
    told(&mut core, Event::Message { from: NodeId(2), message: entered(known) });
    assert_eq!(core.newviews.get(&NodeId(2)), Some(&View(4)));
}

#[test]
fn forwarded_items_fit_their_frame() {
    let pack = Pack::Chain2Order;
    let mut core = recovered(Parameters { block_bytes: 2 << 20, ..parameters(pack) }, 0, Vec::new());
    let item = |size: usize| Item::new(Bytes::from(vec![u8::try_from(size % 251).expect("small"); size]));
    let sizes = [(1 << 20) - 36, (1 << 20) - 37, (1 << 20) - 38, (1 << 20) - 33];
    let items = sizes.into_iter().filter_map(item).collect();
    let told = acting(&mut core, |core, turn| core.send_items(NodeId(1), items, turn));
    let sent =
        |effect: &Effect<Core>| matches!(effect, Effect::Send { message, .. } if fits_its_frame(message));
    assert!(!told.is_empty() && told.iter().all(sent));
}

#[test]
fn a_full_pool_keeps_no_input_of_the_user_waiting() {
    let pack = Pack::Chain2Order;
    let mut core = recovered(Parameters { pool_items: 1, ..parameters(pack) }, 0, Vec::new());
    told(&mut core, Event::Start);
    let payload = Bytes::from_static(b"the only one");
    told(&mut core, Event::Input(Submit::Payload { ticket: Ticket(1), payload }));
    assert!(core.room() > 0, "what the user applied must come in");
    let payload = Bytes::from_static(b"one more");
    let told = outputs(told(&mut core, Event::Input(Submit::Payload { ticket: Ticket(2), payload })));
    assert!(matches!(&told[..], [Delivered::Refused { ticket: Ticket(2), .. }]), "{told:?}");
}

#[test]
fn a_proposal_from_far_ahead_is_checked_behind_the_certificate_that_leads_to_it() {
    let pack = Pack::Chain2Order;
    let mut core = fresh(pack);
    told(&mut core, Event::Start);
    let high = Qc::clone(&core.high);
    let tc = |view| Tc { epoch: Epoch(0), view: View(view), complaints: List::default(), high: high.clone() };
    let leader = core.leaders.after_tc(View(801));
    let (block, _) = child(pack, &genesis(pack), 801, 0);
    let member = u8::try_from(leader.0).expect("a member");
    let proposal = |time| {
        let header = Header { tc: Some(tc(800)), proposer: member, time: Wall(time), ..block.clone() };
        Message::Propose { header, signature: Signature([7; 64]) }
    };
    let mut checks = |message| {
        let effects = told(&mut core, Event::Message { from: leader, message });
        effects.iter().filter(|effect| matches!(effect, Effect::Compute(_))).count()
    };
    assert_eq!(checks(Message::Advance(Proof::Tc(tc(800)))), 1);
    assert_eq!(checks(Message::Advance(Proof::Tc(tc(999)))), 0, "one certificate per sender and second");
    assert_eq!((checks(proposal(1)), checks(proposal(2))), (1, 0), "and one proposal");
}

#[test]
fn what_lies_below_a_commit_is_asked_for_as_a_range_when_single_blocks_do_not_come() {
    let mut core = fresh(Pack::Basic);
    told(&mut core, Event::Start);
    let ranges = |effects: Vec<Effect<Core>>| {
        let wanted = |e: &&Effect<Core>| {
            matches!(e, Effect::Send { message: Message::Fetch(Want::Range { from: 1, .. }), .. })
        };
        effects.iter().filter(wanted).count()
    };
    assert_eq!(ranges(told(&mut core, Event::Timer(Timer::Status))), 0);
    core.pending_commit = Some((Mark { view: View(9), digest: Hash([3; 32]) }, None));
    assert_eq!(ranges(told(&mut core, Event::Timer(Timer::Status))), 1);
}
