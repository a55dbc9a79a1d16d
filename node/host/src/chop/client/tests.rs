//! Calls and their answers, and a client whose brokers do not answer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use synod_chopchop::client::{Output, Parameters, Refusal};
use synod_chopchop::config::{Class, Cluster, Rules};
use synod_config::{NodeKey, code};
use synod_crypto::bls::BlsMembers;
use synod_crypto::{Hash, Seed};
use synod_machine::Link;
use synod_net::{Failure, Observer as _};
use synod_quorum::{Epoch, Member, Model, NodeId, Quorums, Roster};
use synod_wire::Bytes;

use super::calls::{Asked, Calls};
use super::{ChopBroker, ChopClient, ChopClientSetup, ChopState};

fn key(number: u8) -> NodeKey {
    NodeKey::from_seed(Seed::new([number; 32]))
}

fn cluster() -> Cluster {
    let all: Vec<NodeKey> = (1..=4).map(key).collect();
    let voters = all.iter().map(|key| Member { key: key.public(), power: 1 }).collect();
    let roster = Roster::new(Epoch(0), voters).expect("distinct keys");
    let bls = BlsMembers::new(all.iter().map(|key| key.bls().public()).collect()).expect("distinct keys");
    let quorums = Quorums::new(Model::Byzantine, 4).expect("four suffice");
    Cluster::new(Hash::of(b"host tests"), roster, bls, quorums, Rules::default()).expect("sound rules")
}

/// A directory of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("synod-client-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A client whose broker is an address where nobody listens.
fn setup(folder: &Folder, number: u8, id: Option<u32>, class: Class) -> ChopClientSetup {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address: SocketAddr = nobody.expect("loopback has a port");
    ChopClientSetup {
        cluster_name: "main".to_owned(),
        cluster: cluster(),
        class,
        brokers: vec![ChopBroker { address, key: key(77).public() }],
        id,
        key: key(number),
        data: folder.0.clone(),
        parameters: Parameters::default(),
    }
}

fn calls(class: Class) -> Calls {
    let folder = Folder::new("calls");
    let client = ChopClient::open(setup(&folder, 50, Some(3), class)).expect("a sound setup");
    let state = client.state();
    assert_eq!(state, ChopState { id: Some(3), next_k: 0, unfinished: false, linked: 0 });
    let calls = Calls::of(&state, class);
    client.stop().expect("nothing failed");
    calls
}

fn wait<T>(call: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(call)
}

#[test]
fn a_delivery_answers_the_calls_it_names_and_an_earlier_one_those_that_wait_for_it() {
    let calls = calls(Class::Fixed(8));
    let (first, second) = (calls.token(), calls.token());
    assert_ne!(first, second);
    let mut one = calls.wait(Asked::Submit(first));
    let mut two = calls.wait(Asked::Submit(second));
    calls.hear(Output::Delivered { tokens: vec![first], receipt: None });
    assert!(one.try_recv().expect("it is answered").is_ok() && two.try_recv().is_err());
    calls.hear(Output::Refused { token: second, why: Refusal::Busy });
    let refused = two.try_recv().expect("it is answered").expect_err("it is refused");
    assert_eq!(refused.code(), code::BUSY);
    // Nobody here sent this: it is the message of an earlier process.
    let old = Calls::of(&ChopState { unfinished: true, ..calls.state() }, Class::Fixed(8));
    let mut finisher = old.unfinished().expect("a message is in flight");
    old.hear(Output::Delivered { tokens: vec![1], receipt: None });
    assert!(finisher.try_recv().expect("it is answered").is_ok());
    assert!(!old.state().unfinished && old.unfinished().is_none());
}

#[test]
fn a_sign_up_is_over_once_servers_said_where_the_client_stands() {
    let calls = Calls::of(&ChopState { id: None, next_k: 0, unfinished: false, linked: 0 }, Class::Fixed(8));
    let mut answer = calls.wait(Asked::SignUp);
    calls.hear(Output::SignedUp { id: 9 });
    assert!(answer.try_recv().is_err(), "nothing is remembered yet");
    calls.hear(Output::Resynced { next_k: 4 });
    let told = answer.try_recv().expect("it is answered").expect("it has an id");
    assert_eq!((told.id, calls.state().next_k), (Some(9), 4));
    let mut again = calls.wait(Asked::SignUp);
    calls.hear(Output::CardRefused);
    let refused = again.try_recv().expect("it is answered").expect_err("another has the key");
    assert_eq!(refused.code(), code::CARD_REFUSED);
    let mut resync = calls.wait(Asked::Resync);
    calls.hear(Output::Refused { token: 0, why: Refusal::NotInDirectory });
    let refused = resync.try_recv().expect("it is answered").expect_err("it has no id");
    assert_eq!(refused.code(), code::NOT_IN_DIRECTORY);
}

#[test]
fn silence_is_told_by_its_reason_and_an_identity_error_never_shows_as_silence() {
    let calls = calls(Class::Fixed(8));
    assert!(calls.silent("state").message().contains("link"));
    calls.link(NodeId(129), Link::Up);
    assert!(calls.silent("state").message().contains("state"));
    let text = "SYN-2102 unknown_peer_key: 127.0.0.1:1 accepts links with another key".to_owned();
    calls.failed(&Failure { peer: None, code: 2_102, text });
    assert_eq!(calls.silent("state").code(), code::UNKNOWN_PEER_KEY);
    let undecided = calls.undecided(Duration::from_millis(5));
    assert_eq!(undecided.code(), code::DEADLINE_PASSED);
}

#[test]
fn payloads_of_another_class_or_beyond_a_datagram_are_refused_before_anything_is_signed() {
    let folder = Folder::new("class");
    let client = ChopClient::open(setup(&folder, 51, Some(3), Class::Fixed(8))).expect("a sound setup");
    let short = wait(client.submit(Bytes::from_static(b"seven b"), Duration::from_secs(1)));
    assert_eq!(short.expect_err("seven bytes").code(), code::MESSAGE_CLASS);
    client.stop().expect("nothing failed");
    let folder = Folder::new("long");
    let client = ChopClient::open(setup(&folder, 51, Some(3), Class::Variable(9_000))).expect("sound");
    let long = wait(client.submit(vec![1; 1_025].into(), Duration::from_secs(1)));
    assert_eq!(long.expect_err("no stream").code(), code::TOO_LARGE);
    client.stop().expect("nothing failed");
}

#[test]
fn a_client_without_an_id_is_told_so_and_one_without_a_broker_that_nobody_answers() {
    let folder = Folder::new("nobody");
    let client = ChopClient::open(setup(&folder, 52, None, Class::Fixed(8))).expect("a sound setup");
    let patience = Duration::from_secs(20);
    let refused = wait(client.submit(Bytes::from_static(b"8 bytes!"), patience));
    assert_eq!(refused.expect_err("it has no id").code(), code::NOT_IN_DIRECTORY);
    let refused = wait(client.resync(patience));
    assert_eq!(refused.expect_err("it has no id").code(), code::NOT_IN_DIRECTORY);
    let silent = wait(client.sign_up(Duration::from_millis(50)));
    assert_eq!(silent.expect_err("nobody is there").code(), code::NO_ANSWER);
    client.stop().expect("nothing failed");
}

#[test]
fn a_journal_is_of_one_key_and_of_one_process_at_a_time() {
    let folder = Folder::new("journal");
    let client = ChopClient::open(setup(&folder, 53, Some(1), Class::Fixed(8))).expect("a sound setup");
    let second = ChopClient::open(setup(&folder, 53, Some(1), Class::Fixed(8)));
    assert_eq!(second.err().expect("the first has it").code(), code::DATA_DIR_LOCKED);
    client.stop().expect("nothing failed");
    let other = ChopClient::open(setup(&folder, 54, Some(1), Class::Fixed(8)));
    assert_eq!(other.err().expect("another key").code(), code::FOREIGN_DATA_DIR);
    let again = ChopClient::open(setup(&folder, 53, Some(1), Class::Fixed(8))).expect("its own journal");
    again.stop().expect("nothing failed");
}
