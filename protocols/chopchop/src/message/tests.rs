//! Messages: their sizes, their limits, and that no other bytes are read as one.

use proptest::prelude::*;
use synod_crypto::{Hash, HashKey, Signature};
use synod_machine::Queue;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, Draw, Drawn, Limits, Wire};

use super::*;
use crate::card::Card;
use crate::certificate::{Aggregate, HeightCertificate, Signers};
use crate::datagram::{DATAGRAM_MAX, Envelope};
use crate::dedup::{Exceptions, Reason};
use crate::statement::{BlsShareBytes, BlsSignatureBytes, Delivered, Height, Kind};
use crate::tree::{EntryProof, TreeShape};

fn aggregate(members: u32) -> Aggregate {
    let set: NodeSet = (0..members / 3 + 1).map(NodeId).collect();
    let signers = Signers::new(set, members).expect("members");
    Aggregate { signers, signature: BlsSignatureBytes([9; 96]) }
}

fn height(members: u32) -> HeightCertificate {
    HeightCertificate { statement: Height { height: 7 }, aggregate: aggregate(members) }
}

fn inclusion(count: u32, members: Option<u32>) -> ClientMessage {
    let shape = TreeShape { count, msg_size: 8 };
    let path = vec![Hash::ZERO; shape.path_len(0).expect("the first") as usize];
    ClientMessage::Inclusion(Inclusion {
        root: Hash::ZERO,
        k: 1,
        shape,
        proof: EntryProof { index: 0, neighbours: vec![0; shape.neighbour_bytes()].into(), path },
        height: members.map(height),
        closed: false,
    })
}

fn delivery(members: u32, path: Option<usize>) -> ClientMessage {
    ClientMessage::Delivery(Box::new(Delivery {
        root_commit: [1; 16],
        height: 2,
        digest: Hash::ZERO,
        exceptions_root: Hash::ZERO,
        exc_count: u32::from(path.is_some()),
        aggregate: aggregate(members),
        exception: path.map(|n| ExceptionProof { leaf: [0; 64], path: vec![Hash::ZERO; n] }),
    }))
}

fn submit(bytes: usize) -> ClientMessage {
    ClientMessage::Submit(Submit {
        id: 1,
        k0: 2,
        message: Blob::try_from(Bytes::from(vec![3; bytes])).expect("short"),
        parity: true,
        t: Signature([4; 64]),
        legitimacy: None,
    })
}

fn datagram(message: &ClientMessage) -> Option<Bytes> {
    let key = HashKey::derive("synod test link", b"secret");
    Envelope { link: 1, sequence: 2 }.seal(&key, &message.encode())
}

#[test]
fn datagrams_have_the_published_sizes() {
    let share =
        ClientMessage::MultiSig { id: 1, root_commit: [0; 16], share: Box::new(BlsShareBytes([5; 192])) };
    for (message, bytes) in [
        (submit(8), 118),
        (share, 244),
        (delivery(4, None), 221),
        (delivery(64, Some(12)), 676),
        (ClientMessage::Ack { height: 3 }, 40),
        (inclusion(65_536, None), 569),
        (inclusion(65_536, Some(64)), 681),
        (inclusion(COUNT_MAX, None), 697),
    ] {
        let sealed = datagram(&message).expect("it fits");
        assert_eq!(sealed.len(), bytes, "{message:?}");
        assert_eq!(message.encode().len(), message.size_hint(), "no byte is asked for in vain: {message:?}");
        assert_eq!(ClientMessage::decode(message.encode(), &Limits::default()), Ok(message));
    }
    assert!(datagram(&submit(1_024)).is_some_and(|sealed| sealed.len() <= DATAGRAM_MAX));
}

fn refused(message: &ClientMessage, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = message.encode().to_vec();
    assert!(ClientMessage::decode(bytes.clone().into(), &Limits::default()).is_ok());
    change(&mut bytes);
    assert!(ClientMessage::decode(bytes.clone().into(), &Limits::default()).is_err(), "{bytes:?}");
}

#[test]
fn client_messages_that_break_a_limit_are_refused() {
    let ack = ClientMessage::Ack { height: 3 };
    refused(&ack, |b| b[0] = 13);
    refused(&ack, |b| b[1] = 2);
    refused(&ack, |b| b[2] = 1);
    refused(&ack, |b| b.push(0));
    refused(&submit(8), |b| b[2] = 4 | 1);
    refused(&submit(8), |b| b[2] = 2 | 1);
    refused(&submit(1), |b| {
        b[16] = 0;
        b.remove(18);
    });
    // 44: the count of entries; 50: the index.
    refused(&inclusion(9, None), |b| b[44..48].copy_from_slice(&0_u32.to_le_bytes()));
    refused(&inclusion(9, None), |b| b[50] = 9);
    refused(&inclusion(COUNT_MAX, None), |b| b[44..48].copy_from_slice(&(COUNT_MAX + 1).to_le_bytes()));
    refused(&inclusion(9, None), |b| b.truncate(b.len() - 32));
    refused(&delivery(4, Some(3)), |b| b.truncate(b.len() - 8));
    let long = |b: &mut Vec<u8>| b.extend([0; 32]);
    refused(&delivery(4, Some(12)), long);
    refused(&delivery(4, None), long);
    refused(&ClientMessage::Nack { why: Nack::Busy, retry_ms: 1 }, |b| b[4] = 7);
    refused(&ClientMessage::SignUp(Box::new(Card::draw(&mut Drawn::new(1)))), |b| b[4] = 0);
}

fn verdict(exceptions: &Exceptions) -> Verdict {
    let statement = Delivered {
        height: 3,
        kind: Kind::Messages,
        digest: Hash::ZERO,
        root_commit: Hash::ZERO,
        exceptions_root: Hash::ZERO,
        exc_count: exceptions.exc_count(),
    };
    Verdict { statement, exceptions: exceptions.into(), signature: BlsSignatureBytes([1; 96]) }
}

#[test]
fn exceptions_travel_by_pairs_up_to_1024_and_as_a_vector_above() {
    let all = |n: u32| Exceptions::new(COUNT_MAX, (0..n).map(|i| (3 * i, Reason::Stale)).collect());
    for (count, pairs, queue) in
        [(0, true, Queue::CONTROL), (PAIRS_MAX, true, Queue::CONTROL), (PAIRS_MAX + 1, false, Queue::BULK)]
    {
        let exceptions = all(count);
        let message = ServerMessage::Delivered(verdict(&exceptions));
        assert_eq!(message.queue(), queue);
        let ServerMessage::Delivered(again) =
            ServerMessage::decode(message.encode(), &Limits::default()).expect("what was encoded")
        else {
            unreachable!("another message")
        };
        assert_eq!(matches!(again.exceptions, ExceptionList::Pairs(_)), pairs);
        assert_eq!(again.exceptions.exceptions(COUNT_MAX), Some(exceptions));
        assert_eq!(again.exceptions.exceptions(7).is_some(), count == 0, "of another batch");
    }
    let mut short = verdict(&all(2));
    short.statement.exc_count = 3;
    assert!(Verdict::decode(short.encode(), &Limits::default()).is_err());
}

#[test]
fn uploads_of_either_kind_come_back_and_are_bulk() {
    let mut from = Drawn::new(5);
    let (messages, cards) =
        (Upload::messages(true, Draw::draw(&mut from)), Upload::sign_up(false, Draw::draw(&mut from)));
    for upload in [messages, cards] {
        let message = StoreMessage::Batch(upload.clone());
        assert_eq!(message.queue(), Queue::BULK);
        assert_eq!(StoreMessage::decode(message.encode(), &Limits::default()), Ok(message));
        assert_eq!(upload.asks(), upload.as_messages().is_some());
        assert_ne!(upload.as_messages().is_some(), upload.as_sign_up().is_some());
    }
}

fn read_back<T: Wire + PartialEq + core::fmt::Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(value) = T::decode(Bytes::copy_from_slice(bytes), &Limits::default()) {
        prop_assert_eq!(value.encode(), Bytes::copy_from_slice(bytes));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_read_is_written_as_the_same_bytes(
        seed in any::<u64>(),
        flips in proptest::collection::vec((any::<u32>(), any::<u8>()), 0..4),
        cut in 0_usize..4,
    ) {
        let mut from = Drawn::new(seed);
        let client = ClientMessage::draw(&mut from);
        prop_assert_eq!(ClientMessage::decode(client.encode(), &Limits::default()), Ok(client.clone()));
        for bytes in [client.encode(), StoreMessage::draw(&mut from).encode(), ServerMessage::draw(&mut from).encode()] {
            let mut bytes = bytes.to_vec();
            for (at, value) in &flips {
                let at = *at as usize % bytes.len();
                bytes[at] = *value;
            }
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            read_back::<ClientMessage>(&bytes)?;
            read_back::<StoreMessage>(&bytes)?;
            read_back::<ServerMessage>(&bytes)?;
        }
    }
}
