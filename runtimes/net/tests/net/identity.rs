//! Bad identities: each is refused under its own code, and both sides learn it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, ResolvesClientCert};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, SignatureScheme};
use synod_crypto::{Hash, PublicKey, Seed};
use synod_machine::{Link, Span};
use synod_net::{Address, Config, Limits, Role, Transport};
use synod_quorum::NodeId;

use crate::rig::{GUARD, Plan, Rig, config, roster, secret};

fn node() -> Rig {
    Plan::new(config(0, 2)).start()
}

/// Lets `bad` dial `good` and gives the codes both sides saw.
fn refused(good: &Rig, bad: Config) -> (u16, u16) {
    let bad = Plan::new(bad).start();
    bad.dial(good);
    (good.failure().code, bad.failure().code)
}

#[test]
fn an_unknown_key_is_2102() {
    let stranger = Config { seed: secret(40), roster: stranger_roster(), ..config(1, 2) };
    assert_eq!(refused(&node(), stranger), (2_102, 2_102));
}

/// A roster in which member 1 has another key than everybody else thinks.
fn stranger_roster() -> synod_quorum::Roster {
    let mut members = roster(1, 2).members().to_vec();
    members[1].key = secret(40).public();
    synod_quorum::Roster::new(synod_quorum::Epoch(1), members).expect("distinct keys")
}

#[test]
fn a_removed_member_is_2102() {
    assert_eq!(refused(&node(), config(2, 3)), (2_102, 2_102));
}

#[test]
fn the_wrong_member_behind_an_address_is_2102() {
    let (a, b) = (Plan::new(config(0, 3)).start(), Plan::new(config(1, 3)).start());
    a.handle().set_address(NodeId(2), b.peers_at.clone());
    assert_eq!((a.failure().code, b.failure().code), (2_102, 2_102));
}

#[test]
fn another_cluster_is_2101_and_another_genesis_of_the_same_name_2103() {
    let other = Hash::of(b"another genesis");
    let foreign = Config { cluster: other, cluster_name: "other".to_owned(), ..config(1, 2) };
    assert_eq!(refused(&node(), foreign), (2_101, 2_101));
    let changed = Config { cluster: other, ..config(1, 2) };
    assert_eq!(refused(&node(), changed), (2_103, 2_103));
}

#[test]
fn an_old_epoch_is_2104() {
    let old = Config { roster: roster(0, 2), ..config(1, 2) };
    assert_eq!(refused(&node(), old), (2_104, 2_104));
}

#[test]
fn other_machines_under_the_same_genesis_are_2103() {
    let mut plan = Plan::new(config(1, 2));
    plan.machines[0].0 = 7;
    let (good, bad) = (node(), plan.start());
    bad.dial(&good);
    assert_eq!((good.failure().code, bad.failure().code), (2_103, 2_103));
}

#[test]
fn swapped_roles_are_refused_on_both_listeners() {
    let good = node();
    let member = Plan::new(config(1, 2)).start();
    member.handle().set_address(NodeId(0), good.guests_at.clone());
    assert_eq!((good.failure().code, member.failure().code), (2_108, 2_108));
    let good = node();
    let guest = Plan::new(config(900, 2)).start();
    guest.handle().set_address(NodeId(0), good.peers_at.clone());
    assert_eq!((good.failure().code, guest.failure().code), (2_102, 2_102));
    // Without TLS the Hello is what tells them apart.
    let plain = |own| Config { transport: Transport::InsecurePlain, ..config(own, 2) };
    let good = Plan::new(plain(0)).start();
    let guest = Plan::new(plain(900)).start();
    guest.handle().set_address(NodeId(0), good.peers_at.clone());
    assert_eq!((good.failure().code, guest.failure().code), (2_108, 2_108));
}

#[test]
fn a_second_instance_of_a_live_key_is_2109_and_the_first_stays() {
    let good = node();
    let first = Plan::new(config(1, 2)).start();
    first.dial(&good);
    first.wait_link(0, Link::Up);
    good.wait_link(1, Link::Up);
    assert_eq!(refused(&good, config(1, 2)), (2_109, 2_109));
    assert!(good.quiet(), "the first instance's link was not touched");
    // Once the first is gone, its successor comes in.
    first.node.stop().expect("no thread panicked");
    good.wait_link(1, Link::Down);
    let next = Plan::new(config(1, 2)).start();
    next.dial(&good);
    good.wait_link(1, Link::Up);
}

#[test]
fn a_dial_that_meets_its_own_node_is_refused() {
    let a = node();
    a.handle().set_address(NodeId(1), a.peers_at.clone());
    assert_eq!(a.failure().code, 2_102);
}

#[test]
fn a_plain_peer_that_reflects_every_byte_is_refused() {
    let plain = Config { transport: Transport::InsecurePlain, ..config(0, 2) };
    for config in [plain, config(0, 2)] {
        let mirror = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let a = Plan::new(config).start();
        a.handle().set_address(NodeId(1), Some(Address::from(mirror.local_addr().expect("bound"))));
        let (mut stream, _) = mirror.accept().expect("a dials");
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        assert!([2_102, 2_106].contains(&a.failure().code));
    }
}

/// What a hand-made TLS client shows.
struct Shown {
    key: Arc<CertifiedKey>,
    raw: bool,
    present: bool,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shown")
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.present.then(|| self.key.clone())
    }
    fn only_raw_public_keys(&self) -> bool {
        self.raw
    }
    fn has_certs(&self) -> bool {
        self.present
    }
}

/// Believes every server.
#[derive(Debug)]
struct Gullible {
    raw: bool,
}

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
    fn requires_raw_public_keys(&self) -> bool {
        self.raw
    }
}

fn spki(key: &PublicKey) -> Vec<u8> {
    let mut der = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    der.extend_from_slice(&key.0);
    der
}

/// Shows `key`, signs with `signer`.
fn certified(key: &[u8], signer: &Seed) -> Arc<CertifiedKey> {
    let mut der =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend_from_slice(signer.expose());
    let signer = aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der)).expect("an Ed25519 secret");
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(key.to_vec())], signer))
}

fn client(shown: Shown, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
    let raw = shown.raw;
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .expect("known versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible { raw }))
        .with_client_cert_resolver(Arc::new(shown))
}

fn connect(node: &Rig) -> TcpStream {
    connect_to(&node.peers_at)
}

fn connect_to(address: &Option<Address>) -> TcpStream {
    let Some(Address::Tcp(address)) = address else { unreachable!("rigs listen on TCP") };
    let stream = TcpStream::connect(address).expect("the node listens");
    stream.set_read_timeout(Some(GUARD)).expect("a positive time");
    stream
}

/// Speaks TLS to a node until one side ends; the client's error, if it had one, and the bytes it was sent.
fn speak(node: &Rig, config: &Arc<ClientConfig>) -> (Option<rustls::Error>, usize) {
    let name = ServerName::try_from("synod").expect("a name");
    let mut tls = ClientConnection::new(config.clone(), name).expect("a sound configuration");
    let mut stream = connect(node);
    let mut received = 0;
    loop {
        while tls.wants_write() {
            if tls.write_tls(&mut stream).is_err() {
                return (None, received);
            }
        }
        match tls.read_tls(&mut stream) {
            Ok(0) | Err(_) => return (None, received),
            Ok(count) => received += count,
        }
        if let Err(error) = tls.process_new_packets() {
            return (Some(error), received);
        }
    }
}

const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

fn raw(key: &PublicKey, signer: &Seed) -> Shown {
    Shown { key: certified(&spki(key), signer), raw: true, present: true }
}

#[test]
fn a_members_key_without_its_secret_is_refused_by_tls() {
    let good = node();
    let thief = client(raw(&secret(1).public(), &secret(66)), TLS13);
    let (error, received) = speak(&good, &Arc::new(thief));
    assert!(matches!(error, Some(rustls::Error::AlertReceived(_))), "{error:?}");
    assert_eq!(good.failure().code, 2_106);
    assert!(received < 64 << 10);
}

#[test]
fn certificates_of_any_kind_and_no_key_at_all_are_refused() {
    // What the certificate says is of no interest: X.509 is not spoken.
    for present in [true, false] {
        let good = node();
        let shown = Shown { key: certified(&[0x30; 300], &secret(1)), raw: false, present };
        let (error, _) = speak(&good, &Arc::new(client(shown, TLS13)));
        assert!(error.is_some());
        assert_eq!(good.failure().code, 2_106);
    }
    let good = node();
    let shown = Shown { key: certified(&spki(&secret(1).public()), &secret(1)), raw: true, present: false };
    let (error, _) = speak(&good, &Arc::new(client(shown, TLS13)));
    assert!(error.is_some());
    assert!([2_102, 2_106].contains(&good.failure().code));
}

#[test]
fn tls_1_2_and_plaintext_are_refused() {
    let good = node();
    let (error, _) = speak(&good, &Arc::new(client(raw(&secret(1).public(), &secret(1)), TLS12)));
    assert!(error.is_some());
    assert_eq!(good.failure().code, 2_106);
    let good = node();
    let mut stream = connect(&good);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: synod\r\n\r\n").expect("the node reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.len() < 64, "an alert at most");
    assert_eq!(good.failure().code, 2_106);
}

#[test]
fn nothing_is_resumed_and_no_early_data_is_taken() {
    let good = node();
    let mut config = client(raw(&secret(1).public(), &secret(1)), TLS13);
    config.enable_early_data = true;
    config.resumption = rustls::client::Resumption::in_memory_sessions(8);
    let config = Arc::new(config);
    for _ in 0..3 {
        let name = ServerName::try_from("synod").expect("a name");
        let mut tls = ClientConnection::new(config.clone(), name).expect("a sound configuration");
        assert!(tls.early_data().is_none(), "no ticket was given that would allow it");
        let mut stream = connect(&good);
        tls.complete_io(&mut stream).expect("the key is a member's");
        assert_eq!(tls.handshake_kind(), Some(rustls::HandshakeKind::Full));
        tls.writer().write_all(&[0; 8]).expect("buffered");
        let _ = tls.complete_io(&mut stream);
    }
}

#[test]
fn a_hello_that_is_no_hello_is_refused_after_tls() {
    let good = node();
    let config = Arc::new(client(raw(&secret(1).public(), &secret(1)), TLS13));
    let name = ServerName::try_from("synod").expect("a name");
    let mut tls = ClientConnection::new(config, name).expect("a sound configuration");
    let mut stream = connect(&good);
    tls.complete_io(&mut stream).expect("the key is a member's");
    // Length 4, queue 0, the link's own machine, no flags, then four bytes of nonsense.
    tls.writer().write_all(&[4, 0, 0, 0, 0, 255, 0, 0, 9, 9, 9, 9]).expect("buffered");
    let _ = tls.complete_io(&mut stream);
    assert_eq!(good.failure().code, 2_105);
}

#[test]
fn a_hello_larger_than_its_cap_is_refused_by_its_header() {
    let good = node();
    let config = Arc::new(client(raw(&secret(1).public(), &secret(1)), TLS13));
    let name = ServerName::try_from("synod").expect("a name");
    let mut tls = ClientConnection::new(config, name).expect("a sound configuration");
    let mut stream = connect(&good);
    tls.complete_io(&mut stream).expect("the key is a member's");
    tls.writer().write_all(&[0, 0, 0, 1, 0, 255, 0, 0]).expect("buffered");
    let _ = tls.complete_io(&mut stream);
    assert_eq!(good.failure().code, 2_105);
}

#[test]
fn strangers_that_say_nothing_are_dropped_and_members_come_in_beside_them() {
    let limits = Limits { handshakes_max: 4, handshake: Span::millis(300), ..Limits::default() };
    let good = Plan::new(Config { limits, ..config(0, 2) }).start();
    let strangers: Vec<TcpStream> = (0..20).map(|_| connect(&good)).collect();
    let member = Plan::new(config(1, 2)).start();
    member.dial(&good);
    good.wait_link(1, Link::Up);
    assert_eq!(good.failure().code, 2_003);
    for mut stream in strangers {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "closed without a word");
    }
}

#[test]
fn strangers_at_the_guests_listener_that_take_every_place_stop_neither_the_node_nor_its_members() {
    let limits = Limits { handshakes_max: 1, handshake: Span::millis(300), ..Limits::default() };
    let good = Plan::new(Config { limits, ..config(0, 2) }).start();
    let strangers: Vec<TcpStream> = (0..20).map(|_| connect_to(&good.guests_at)).collect();
    let member = Plan::new(config(1, 2)).start();
    member.dial(&good);
    good.wait_link(1, Link::Up);
    drop(strangers);
}

#[test]
fn an_address_without_a_listener_is_2001() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = gone.local_addr().expect("bound");
    drop(gone);
    let a = node();
    a.handle().set_address(NodeId(1), Some(Address::from(address)));
    let failure = a.failure();
    assert_eq!((failure.code, failure.peer), (2_001, Some(NodeId(1))));
}

#[test]
fn a_plan_that_contradicts_itself_is_refused_before_anything_starts() {
    let start = |config: Config| synod_net::Node::builder(config).start().err().map(|error| error.code());
    assert_eq!(start(Config { seed: secret(9), ..config(0, 2) }), Some(1_103), "another member's secret");
    assert_eq!(start(Config { own: NodeId(5), ..config(0, 2) }), Some(1_103), "no member");
    assert_eq!(
        start(Config { role: Role::Guest, ..config(0, 2) }),
        Some(1_103),
        "a guest with a member's id"
    );
    assert_eq!(start(Config { cluster_name: "x".repeat(65), ..config(0, 2) }), Some(1_103), "a long name");
}
