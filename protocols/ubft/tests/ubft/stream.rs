//! A row of the table of checks (specification, 4.6) per test: what is valid, what it changes, and what halts the stream.

use std::sync::Arc;

use synod_crypto::{Hash, Refusal, Verified};
use synod_quorum::{Epoch, NodeId, Roster};
use synod_ubft::batch::{Auth, Batch, Op, Request, Slot, View};
use synod_ubft::certificate::{Certificate, Certified, Checkpoint, Committed, Judged, Left, Subject};
use synod_ubft::stream::{Checked, Invalid, Low, Stream};
use synod_ubft::{Config, Parameters};
use synod_wire::{Bytes, Wire as _};

use crate::world::{config as base, keys, signature_by};

const START: Low = Low { low: Slot(0), digest: Hash::ZERO, end: None };
const WINDOW: u64 = 32;

fn config() -> Config {
    let parameters =
        Parameters { window: 32, batch_max: 2, batch_bytes_max: 4 << 10, ..base(NodeId(1), 3).parameters };
    Config { parameters, ..base(NodeId(1), 3) }
}

fn batch(origin: u64, byte: u8) -> Batch {
    let op = Op::Inline(Bytes::from(vec![byte; 8]).try_into().expect("short"));
    let request = Request { session: 1, id: 1, op, auth: Auth::Heard };
    Batch { origin: View(origin), time_ms: 5, requests: vec![request].try_into().expect("few") }
}

fn prepare_of(view: u64, slot: u64, batch: Batch) -> Checked {
    let (digest, length) = batch.measure();
    Checked::Prepare { view: View(view), slot: Slot(slot), batch: batch.into(), digest, length }
}

fn prepare(view: u64, slot: u64) -> Checked {
    prepare_of(view, slot, batch(view, 1))
}

/// Signed by these replicas, unchecked.
fn certificate<T: Subject>(subject: T, signers: &[u8]) -> Certificate<T> {
    let sign = |signer: &u8| (*signer, signature_by(NodeId(u32::from(*signer)), subject.statement(*signer)));
    let signed: Vec<_> = signers.iter().map(sign).collect();
    Certificate { subject, signed: signed.try_into().expect("few") }
}

fn proven<T: Subject>(subject: T) -> Verified<Judged<T>> {
    certificate(subject, &[0, 2]).verify(&config(), &keys(NodeId(1))).expect("f + 1 signed")
}

fn commit(view: u64, slot: u64, byte: u8) -> Checked {
    let digest = batch(view, byte).digest();
    Checked::Commit(proven(Certified { view: View(view), slot: Slot(slot), digest }))
}

fn checkpoint_of(low: u64, end: Option<u64>) -> Checkpoint {
    let hash = Hash([7; 32]);
    let end = end.map(Slot);
    Checkpoint { epoch: Epoch(0), low: Slot(low), log_chain: hash, exec_chain: hash, config: hash, end }
}

fn checkpoint(low: u64, end: Option<u64>) -> Checked {
    Checked::Checkpoint(proven(checkpoint_of(low, end)))
}

fn left_of(view: u64, about: u8, low: u64, commits: &[(u64, u64, u8)]) -> Left {
    let row = |(slot, view, byte): &(u64, u64, u8)| Committed {
        slot: Slot(*slot),
        view: View(*view),
        digest: batch(*view, *byte).digest(),
    };
    let commits: Vec<_> = commits.iter().map(row).collect();
    let commits = commits.try_into().expect("few");
    Left { view: View(view), about, low: Slot(low), checkpoint: Hash::ZERO, commits }
}

fn new_view(view: u64, left: Vec<Left>) -> Checked {
    Checked::NewView { view: View(view), left: left.into_iter().map(proven).collect() }
}

/// The stream of a replica, and what it says.
struct Says {
    config: Config,
    sender: NodeId,
    stream: Stream,
}

impl Says {
    fn new(sender: u32) -> Self {
        let (config, sender) = (config(), NodeId(sender));
        Self { stream: Stream::new(&config, sender, START), config, sender }
    }

    fn say(&mut self, message: &Checked) -> Result<(), Invalid> {
        let (k, before) = (self.stream.next_k(), self.stream.clone());
        let said = self.stream.apply(&self.config, k, message);
        if said.is_err() {
            assert_eq!(before, self.stream, "what is refused changes nothing");
        } else {
            assert_eq!(self.stream.next_k(), k + 1);
            self.is_summarized();
        }
        said
    }

    fn all(&mut self, messages: &[Checked]) {
        messages.iter().for_each(|message| assert_eq!(self.say(message), Ok(())));
    }

    /// Whoever takes the state of a summary is where the stream is.
    fn is_summarized(&self) {
        let state = self.stream.state();
        let mut other = Stream::new(&self.config, self.sender, START);
        assert!(other.restore(&state) && other == self.stream);
        assert!(!other.restore(&state), "it is not ahead");
        assert_eq!(other.state().digest(), state.digest());
    }
}

#[test]
fn a_leader_proposes_slot_after_slot_in_its_window() {
    let mut says = Says::new(0);
    for slot in 0..WINDOW {
        assert_eq!(says.stream.next_prepare(), Some(Slot(slot)));
        assert_eq!(says.say(&prepare(0, slot)), Ok(()));
        assert_eq!(says.stream.prepared(Slot(slot)), Some(batch(0, 1).digest()));
    }
    assert_eq!(says.say(&prepare(0, WINDOW)), Err(Invalid::Window));
    assert_eq!(says.say(&checkpoint(16, None)), Ok(()));
    assert_eq!(says.stream.prepared(Slot(15)), None, "what is below is forgotten");
    assert_eq!(says.say(&prepare(0, WINDOW)), Ok(()));
}

#[test]
fn a_proposal_that_is_not_the_next_of_the_leader_in_its_view_halts_the_stream() {
    assert_eq!(Says::new(1).say(&prepare(0, 0)), Err(Invalid::NotItsLead));
    assert_eq!(Says::new(1).say(&prepare(1, 0)), Err(Invalid::View));
    for (slot, why) in [(1, Invalid::Slot), (WINDOW, Invalid::Slot), (1 << 62, Invalid::TooLarge)] {
        assert_eq!(Says::new(0).say(&prepare(0, slot)), Err(why));
    }
    let mut says = Says::new(0);
    says.all(&[prepare(0, 0)]);
    assert_eq!(says.say(&prepare(0, 0)), Err(Invalid::Slot), "a slot twice, under another number");
    assert_eq!(says.say(&prepare_of(0, 1, batch(1, 1))), Err(Invalid::Origin));
    let far = Batch { time_ms: u64::MAX, ..batch(0, 1) };
    assert_eq!(says.say(&prepare_of(0, 1, far)), Err(Invalid::TooLarge));
    let k = says.stream.next_k();
    assert_eq!(says.stream.apply(&config(), k + 1, &prepare(0, 1)), Err(Invalid::Number));
}

#[test]
fn batches_and_requests_are_as_large_as_the_configuration_lets_them() {
    let of = |op: Op, count: usize| {
        let request = Request { session: 1, id: 1, op, auth: Auth::Heard };
        let requests = vec![request; count].try_into().expect("few");
        prepare_of(0, 0, Batch { requests, ..batch(0, 1) })
    };
    let inline = |bytes: usize| Op::Inline(Bytes::from(vec![0; bytes]).try_into().expect("short"));
    let beside = |length: u32| Op::Ref { digest: Hash::ZERO, length };
    for (message, is_fine) in [
        (of(inline(2 << 10), 1), true),
        (of(inline((2 << 10) + 1), 1), false),
        (of(inline(1), 2), true),
        (of(inline(1), 3), false),
        // Each is small enough, and both together are not.
        (of(inline(2 << 10), 2), false),
        (of(beside(2 << 10), 1), false),
        (of(beside((2 << 10) + 1), 1), true),
        (of(beside(256 << 10), 1), true),
        (of(beside((256 << 10) + 1), 1), false),
        (of(inline(1), 0), true),
    ] {
        let wanted = if is_fine { Ok(()) } else { Err(Invalid::Size) };
        assert_eq!(Says::new(0).say(&message), wanted, "{message:?}");
    }
    let mut large = batch(0, 1);
    let mut requests = large.requests.into_vec();
    requests[0].session = 1 << 62;
    large.requests = requests.try_into().expect("few");
    assert_eq!(Says::new(0).say(&prepare_of(0, 0, large)), Err(Invalid::Size));
}

#[test]
fn a_slot_is_committed_once_in_a_view_and_again_in_a_later_one() {
    let mut says = Says::new(2);
    says.all(&[commit(0, 5, 1), commit(0, 3, 1)]);
    assert_eq!(says.say(&commit(0, 5, 1)), Err(Invalid::Again));
    assert_eq!(says.say(&commit(0, 5, 2)), Err(Invalid::Again));
    assert_eq!(says.say(&commit(1, 6, 1)), Err(Invalid::View));
    assert_eq!(says.say(&commit(0, WINDOW, 1)), Err(Invalid::Window));
    says.all(&[Checked::SealView(View(1)), commit(1, 5, 2)]);
    let commits: Vec<_> = says.stream.commits().map(|row| (row.slot.0, row.view.0)).collect();
    assert_eq!(commits, [(3, 0), (5, 1)]);
    says.all(&[checkpoint(4, None)]);
    assert_eq!(says.say(&commit(1, 3, 1)), Err(Invalid::Window), "below the checkpoint");
    assert_eq!(says.stream.commits().count(), 1);
}

#[test]
fn checkpoints_rise_and_an_epoch_ends_where_they_say() {
    let mut says = Says::new(0);
    says.all(&[checkpoint(16, Some(18))]);
    assert_eq!(says.say(&checkpoint(16, None)), Err(Invalid::NotAbove));
    assert_eq!(says.say(&checkpoint(1 << 62, None)), Err(Invalid::TooLarge));
    let other = Checkpoint { epoch: Epoch(1), ..checkpoint_of(32, None) };
    let quorums_of_other = certificate(other, &[0, 2]).verify(&config(), &keys(NodeId(1)));
    assert!(
        quorums_of_other.is_ok_and(|proven| says.say(&Checked::Checkpoint(proven)) == Err(Invalid::NotAbove))
    );
    says.all(&[prepare(0, 16), prepare(0, 17)]);
    assert_eq!(says.say(&prepare(0, 18)), Err(Invalid::Window), "nothing beyond the end");
    assert_eq!(says.say(&commit(0, 18, 1)), Err(Invalid::Window));
    // An end that was said stays said.
    says.all(&[checkpoint(17, None)]);
    assert_eq!(says.say(&prepare(0, 18)), Err(Invalid::Window));
}

#[test]
fn a_view_is_left_for_a_later_one_and_forgets_what_was_proposed() {
    let mut says = Says::new(0);
    says.all(&[prepare(0, 0), commit(0, 0, 1), Checked::SealView(View(2))]);
    assert_eq!(says.say(&Checked::SealView(View(2))), Err(Invalid::Backwards));
    assert_eq!(says.say(&Checked::SealView(View(1))), Err(Invalid::Backwards));
    assert_eq!(says.say(&Checked::SealView(View(1 << 62))), Err(Invalid::TooLarge));
    assert_eq!((says.stream.prepared(Slot(0)), says.stream.next_prepare()), (None, None));
    assert_eq!(says.stream.commits().count(), 1, "promises stay");
    assert_eq!(says.say(&prepare(0, 1)), Err(Invalid::View));
}

#[test]
fn a_new_leader_shows_where_f_plus_one_stood_and_proposes_what_they_are_committed_to() {
    let mut says = Says::new(1);
    says.all(&[Checked::SealView(View(1))]);
    assert_eq!(says.say(&prepare(1, 0)), Err(Invalid::NoNewView));
    // The newer certificate of slot 2 counts, whoever has it.
    says.all(&[new_view(1, vec![left_of(1, 0, 0, &[(0, 0, 1), (2, 0, 3)]), left_of(1, 2, 0, &[(2, 0, 3)])])]);
    assert_eq!(says.stream.must(Slot(0)), Some(batch(0, 1).digest()));
    assert_eq!(says.say(&prepare(1, 0)), Err(Invalid::MustPropose));
    says.all(&[prepare_of(1, 0, batch(0, 1))]);
    assert_eq!(
        says.say(&prepare_of(1, 1, batch(0, 9))),
        Err(Invalid::Origin),
        "an old batch nobody must have"
    );
    says.all(&[prepare(1, 1), prepare_of(1, 2, batch(0, 3)), prepare(1, 3)]);
}

#[test]
fn of_two_certificates_of_a_slot_the_one_of_the_higher_view_must_be_proposed() {
    for turned in [false, true] {
        let mut says = Says::new(1);
        let mut left = [(0, 4, 7), (0, 2, 5)].map(|(slot, view, byte)| vec![(slot, view, byte)]);
        if turned {
            left.reverse();
        }
        says.all(&[Checked::SealView(View(7))]);
        let left = vec![left_of(7, 0, 0, &left[0]), left_of(7, 2, 0, &left[1])];
        says.all(&[new_view(7, left)]);
        assert_eq!(says.stream.must(Slot(0)), Some(batch(4, 7).digest()));
    }
}

#[test]
fn a_new_view_is_the_first_word_of_its_leader_and_good_for_no_other_view() {
    let fine = |view| new_view(view, vec![left_of(view, 0, 0, &[]), left_of(view, 2, 0, &[])]);
    let mut says = Says::new(1);
    assert_eq!(says.say(&fine(1)), Err(Invalid::View), "before it is in the view");
    says.all(&[Checked::SealView(View(1))]);
    assert_eq!(says.say(&fine(2)), Err(Invalid::NotItsLead));
    assert_eq!(says.say(&fine(4)), Err(Invalid::View));
    says.all(&[checkpoint(16, None), fine(1)]);
    assert_eq!(says.say(&fine(1)), Err(Invalid::NotFirst), "twice");
    // What had to be proposed in one view need not be in the next.
    let mut other = Says::new(1);
    other.all(&[Checked::SealView(View(1))]);
    other.all(&[new_view(1, vec![left_of(1, 0, 0, &[(0, 0, 1)]), left_of(1, 2, 0, &[])])]);
    other.all(&[Checked::SealView(View(4))]);
    assert_eq!(other.stream.must(Slot(0)), None);
    // What was shown in view 1 lets nothing be proposed in view 4, which it leads as well.
    says.all(&[Checked::SealView(View(4))]);
    assert_eq!(says.say(&prepare(4, 16)), Err(Invalid::NoNewView));
    says.all(&[commit(4, 20, 1)]);
    assert_eq!(says.say(&fine(4)), Err(Invalid::NotFirst), "after another word");
    // The first view needs none, and takes none.
    assert_eq!(Says::new(0).say(&fine(0)), Err(Invalid::NotFirst));
}

#[test]
fn a_new_view_needs_f_plus_one_replicas_once_each_of_its_view_and_not_above_it() {
    let refused = |left: Vec<Left>, why| {
        let mut says = Says::new(1);
        says.all(&[Checked::SealView(View(1))]);
        assert_eq!(says.say(&new_view(1, left)), Err(why));
    };
    refused(vec![], Invalid::Certificates);
    refused(vec![left_of(1, 0, 0, &[])], Invalid::Certificates);
    refused(vec![left_of(1, 0, 0, &[]), left_of(1, 0, 0, &[])], Invalid::Certificates);
    refused(vec![left_of(1, 2, 0, &[]), left_of(1, 0, 0, &[])], Invalid::Certificates);
    refused(vec![left_of(1, 0, 0, &[]), left_of(4, 2, 0, &[])], Invalid::Certificates);
    refused(vec![left_of(1, 0, 16, &[]), left_of(1, 2, 0, &[])], Invalid::Below);
    let mut says = Says::new(1);
    says.all(&[Checked::SealView(View(1)), checkpoint(16, None)]);
    says.all(&[new_view(1, vec![left_of(1, 0, 16, &[(17, 0, 2)]), left_of(1, 2, 0, &[(3, 0, 1)])])]);
    assert_eq!(says.stream.next_prepare(), Some(Slot(16)));
    assert_eq!((says.stream.must(Slot(3)), says.stream.must(Slot(17))), (None, Some(batch(0, 2).digest())));
}

#[test]
fn a_certificate_has_exactly_f_plus_one_distinct_signers_of_its_own_domain() {
    let verify =
        |certificate: Certificate<Checkpoint>| certificate.verify(&config(), &keys(NodeId(1))).map(|_| ());
    let good = |signers: &[u8]| certificate(checkpoint_of(16, None), signers);
    assert_eq!(verify(good(&[0, 1])), Ok(()));
    assert_eq!(verify(good(&[1])), Err(Refusal::TooWeak));
    assert_eq!(verify(good(&[])), Err(Refusal::TooWeak));
    assert_eq!(verify(good(&[0, 1, 2])), Err(Refusal::TooWeak), "one form of each proof");
    assert!(matches!(verify(good(&[1, 0])), Err(Refusal::Unfit(_))));
    assert!(matches!(verify(good(&[1, 1])), Err(Refusal::Unfit(_))));
    assert_eq!(verify(good(&[0, 7])), Err(Refusal::Stranger(NodeId(7))));
    let forged = |subject| Certificate { subject, ..good(&[0, 1]) };
    assert_eq!(verify(forged(checkpoint_of(32, None))), Err(Refusal::Forged(NodeId(0))));
    // Signatures of one replica under the name of another, of another cluster, of another epoch.
    let mut swapped = good(&[0, 1]).signed.into_vec();
    swapped[0].1 = swapped[1].1;
    assert_eq!(
        verify(Certificate { signed: swapped.try_into().expect("few"), ..good(&[0, 1]) }),
        Err(Refusal::Forged(NodeId(0)))
    );
    let other = Config { cluster: Hash([4; 32]), ..config() };
    assert!(good(&[0, 1]).verify(&other, &keys(NodeId(1))).is_err());
    let later = Roster::new(Epoch(1), config().roster.members().to_vec()).expect("a roster");
    let later = Config { epoch: Epoch(1), roster: Arc::new(later), ..config() };
    assert!(good(&[0, 1]).verify(&later, &keys(NodeId(1))).is_err());
    // A proposal's certificate is none of a checkpoint, nor that of a slot one of another.
    let certified = Certified { view: View(0), slot: Slot(0), digest: Hash::ZERO };
    let moved =
        Certificate { subject: Certified { slot: Slot(1), ..certified }, ..certificate(certified, &[0, 1]) };
    assert!(moved.verify(&config(), &keys(NodeId(1))).is_err());
}

#[test]
fn equal_words_give_equal_states_and_different_ones_others() {
    let words = [prepare(0, 0), commit(0, 0, 1), checkpoint(16, None), Checked::SealView(View(3))];
    let (mut one, mut other) = (Says::new(0), Says::new(0));
    let mut states = vec![one.stream.state().digest()];
    for word in &words {
        one.all(std::slice::from_ref(word));
        other.all(std::slice::from_ref(word));
        assert_eq!(one.stream.state().encode(), other.stream.state().encode());
        let state = one.stream.state().digest();
        assert!(!states.contains(&state));
        states.push(state);
    }
}

#[test]
fn a_stream_that_is_full_is_no_larger_than_its_window() {
    let mut says = Says::new(0);
    for round in 0..4 {
        for slot in round * 16..round * 16 + 16 {
            says.all(&[prepare(0, slot), commit(0, slot, 1)]);
        }
        says.all(&[checkpoint(round * 16 + 16, None)]);
    }
    let state = says.stream.state();
    assert_eq!((state.prepared.len(), state.commits.len()), (0, 0));
    for slot in 64..64 + WINDOW {
        says.all(&[prepare(0, slot), commit(0, slot, 1)]);
    }
    let state = says.stream.state();
    assert_eq!((state.prepared.len() as u64, state.commits.len() as u64), (WINDOW, WINDOW));
}
