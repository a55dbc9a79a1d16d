//! Shared vocabulary: random streams, time, planted bugs, formats.

use synod_machine::broadcast::{Checkpoint, Context, Except, Lot, Position, Ticket};
use synod_machine::register::{Held, Place, Region, RegisterOp, RegisterReply, Said};
use synod_machine::{Rng, Span, Time, Wall, planted};
use synod_quorum::NodeId;

#[test]
fn equal_keys_give_equal_streams_and_others_do_not() {
    let draw = |seed, node, machine| {
        let mut rng = Rng::new(seed, NodeId(node), machine);
        (0..4).map(|_| rng.draw()).collect::<Vec<_>>()
    };
    assert_eq!(draw(1, 2, 3), draw(1, 2, 3));
    assert_ne!(draw(1, 2, 3), draw(2, 2, 3));
    assert_ne!(draw(1, 2, 3), draw(1, 3, 3));
    assert_ne!(draw(1, 2, 3), draw(1, 2, 4));
    let mut rng = Rng::new(5, NodeId(0), 0);
    assert!((0..1_000).all(|_| rng.below(7) < 7));
    assert_eq!(rng.below(0), 0);
}

#[test]
fn time_saturates_instead_of_wrapping() {
    assert_eq!(Time(u64::MAX) + Span(1), Time(u64::MAX));
    assert_eq!(Time(5).since(Time(9)), Span::ZERO);
    assert_eq!(Span::secs(u64::MAX), Span(u64::MAX));
    assert_eq!(Time(1_500_000_000).to_string(), "1.500000s");
    assert_eq!(Span::micros(1_234_567).to_string(), "1234.567ms");
    assert_eq!(Span::millis(7).times(3).as_millis(), 21);
}

#[cfg(not(synod_plant))]
#[test]
fn a_plant_is_the_literal_false() {
    const PLANTED: bool = planted!(H1);
    const { assert!(!PLANTED) };
}

#[cfg(synod_plant)]
#[test]
fn one_plant_at_a_time_is_active() {
    synod_machine::planted::activate("H1");
    assert!(planted!(H1) && !planted!(H2));
    synod_machine::planted::activate("");
    assert!(!planted!(H1));
}

synod_wire::conformance!(
    Wall,
    Position,
    Ticket,
    Checkpoint,
    Context,
    Except,
    Lot,
    Region,
    Place,
    Held,
    RegisterOp,
    Said,
    RegisterReply
);
