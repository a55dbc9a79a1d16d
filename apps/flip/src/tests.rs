//! What flip promises.

use proptest::prelude::*;
use synod_crypto::{Hash, merkle};
use synod_service::{App, At, Position, Replies, Request, Wall};

use crate::Flip;

fn execute(flip: &mut Flip, position: u64, bodies: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let at = At { position: Position(position), time: Wall(0), draw: Hash::ZERO };
    let mut replies = Replies::default();
    let requests = (1..).zip(bodies).map(|(sequence, body)| Request { session: 7, sequence, body });
    flip.execute(&at, &mut { requests }, &mut replies);
    let replies = replies.drain().map(|reply| reply.to_vec()).collect();
    flip.invariants();
    replies
}

proptest! {
    #[test]
    fn a_reply_is_the_request_backwards(bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..8)) {
        let mut flip = Flip::default();
        let replies = execute(&mut flip, 1, &bodies);
        prop_assert_eq!(replies.len(), bodies.len());
        for (reply, body) in replies.iter().zip(&bodies) {
            let mut backwards = reply.clone();
            backwards.reverse();
            prop_assert_eq!(&backwards, body);
        }
        prop_assert_eq!(flip.executed(), bodies.len() as u64);
    }
}

#[test]
fn replicas_that_executed_other_requests_or_another_order_have_other_roots() {
    let orders = [
        vec![],
        vec![b"ab".to_vec()],
        vec![b"a".to_vec(), b"b".to_vec()],
        vec![b"b".to_vec(), b"a".to_vec()],
        vec![b"a".to_vec(), b"b".to_vec(), vec![]],
    ];
    let roots = orders.map(|bodies| {
        let mut flip = Flip::default();
        execute(&mut flip, 1, &bodies);
        flip.root()
    });
    for (index, root) in roots.iter().enumerate() {
        assert!(!roots[..index].contains(root), "order {index}");
    }
}

#[test]
fn a_state_comes_back_from_its_chunk_and_no_other_bytes_are_one() {
    let mut flip = Flip::default();
    execute(&mut flip, 3, &[b"x".to_vec()]);
    let chunk = flip.chunk(0);
    assert_eq!(flip.root(), merkle::Tree::new(vec![merkle::leaf(&chunk)]).root());
    assert!(flip.chunk(1).is_empty() && flip.chunks() == 1);
    let mut other = Flip::default();
    other.restore(0, &chunk).expect("its own chunk");
    assert_eq!(other, flip);
    for (index, bytes) in [(1, &chunk[..]), (0, &chunk[1..]), (0, &[0; 49][..]), (0, &[1; 7][..])] {
        assert!(other.restore(index, bytes).is_err());
        assert_eq!(other, Flip::default(), "a refused chunk leaves nothing behind");
    }
    // A count without a chain.
    let mut forged = [0; 48];
    forged[0] = 1;
    assert!(other.restore(0, &forged).is_err());
    other.restore(0, &[0; 48]).expect("the state of the beginning");
}

#[test]
fn a_question_is_flipped_and_changes_nothing() {
    let flip = Flip::default();
    assert_eq!(flip.query(b"abc").as_deref(), Some(&b"cba"[..]));
    assert_eq!(flip, Flip::default());
}
