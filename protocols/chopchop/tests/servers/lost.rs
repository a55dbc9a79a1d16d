//! Items that get lost on their way into the order.

use std::cell::Cell;
use std::rc::Rc;

use synod_chopchop::message::ServerMessage;
use synod_chopchop::vocabulary::Message;
use synod_machine::Span;

use crate::ideal::Say;
use crate::world::{BROKER, Recipe, World};

/// A world in which nothing reaches whoever numbers.
fn deaf() -> World {
    let mut world = World::usual();
    world.passes = Box::new(|envelope| !matches!(envelope.message, Message::Ordering(Say::Number(_))));
    world
}

#[test]
fn an_item_that_the_ordering_layer_lost_is_given_to_it_again() {
    let mut world = deaf();
    let batch = world.maker.batch(&Recipe::of(0, &[(1, 5)]));
    world.deliver(&batch);
    assert_eq!(world.delivered(), [1; 4], "nobody numbered it");
    world.passes = Box::new(|_| true);
    // The broker repeats it, and is told to wait for what is on its way.
    world.order(&batch, &[0, 1]);
    assert_eq!(world.delivered(), [1; 4]);
    world.pass(Span::secs(6));
    assert_eq!(world.outcome(&batch), []);
    assert_eq!(world.delivered(), [2; 4], "and once alone");
    world.agree();
}

#[test]
fn an_item_that_expired_on_its_way_is_let_go() {
    let mut world = deaf();
    let batch = world.maker.batch(&Recipe { expiry: 3, ..Recipe::of(0, &[(1, 5)]) });
    world.deliver(&batch);
    let asked = Rc::new(Cell::new(0));
    let count = asked.clone();
    world.passes = Box::new(move |envelope| {
        if matches!(envelope.message, Message::Ordering(Say::Number(_))) {
            count.set(count.get() + 1);
        }
        true
    });
    for recipe in [Recipe::of(0, &[(2, 5)]), Recipe::of(1, &[(3, 5)])] {
        let other = world.maker.batch(&recipe);
        world.upload(BROKER, &[0, 1, 2, 3], &other);
        let item = world.item_of(world.statement(&other), &[0, 1]);
        world.say(BROKER, 2, ServerMessage::Order(item));
        world.calm();
    }
    assert_eq!((world.delivered(), asked.get()), (vec![3; 4], 2), "the height it expires at");
    world.pass(Span::secs(12));
    assert_eq!((world.delivered(), asked.get()), (vec![3; 4], 2), "nobody asks for it any more");
}
