//! One replica, looked at from inside: what it serves, takes and sends.

mod returned;

use std::sync::Arc;

use synod_crypto::{Hash, Signature};
use synod_machine::broadcast::{Delivered, Position, Submit, Ticket};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Log, Machine, Message as _, QueueSpec, Rng, Time, Turn, Wall};
use synod_quorum::{Epoch, Member, NodeId, NodeSet, PublicKey, Roster};
use synod_wire::{Bytes, List, Wire};

use super::state::Core;
use crate::block::Body;
use crate::message::{Proof, Want};
use crate::proven::Proven;
use crate::record::{Mark, Safety};
use crate::tree::Block;
use crate::{Config, Header, Identity, Item, Kind, Message, Pack, Parameters, Qc, Record, Tc, Timer, View};

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
