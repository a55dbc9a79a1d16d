//! Links between nodes of one process: the placement `cooperative`, and its client beside it.

use crate::doorbell::Ropes;
use crate::error::Error;
use crate::line::{Line, Made, PAGE_WORDS, Parts, Seen, make, named};
use crate::memfd::{Agreed, see};
use crate::station::Station;

/// Links two nodes of this process, whose memory is mapped twice as between processes. `bells` are those of their
/// pollers, in the same order; none where one poller polls both, which then needs no bell.
///
/// # Errors
/// What the system said, or plans that have different queues.
pub fn introduce(
    one: &mut Station,
    other: &mut Station,
    bells: Option<(&Ropes, &Ropes)>,
) -> Result<(), Error> {
    let mine = made(one, other)?;
    let theirs = made(other, one)?;
    let (for_one, for_other) = (shown(&theirs)?, shown(&mine)?);
    let (button_of_other, button_of_one) = match bells {
        Some((one, other)) => (Some(other.button()?), Some(one.button()?)),
        None => (None, None),
    };
    let (first, second) = (one.own(), other.own());
    let plan = std::sync::Arc::clone(one.plan());
    let (theirs_page, rings) = for_one;
    one.join(Line::new(Parts {
        peer: second,
        made: mine,
        theirs: theirs_page,
        rings,
        spots: &plan.incoming,
        button: button_of_other,
        life: None,
    })?);
    let plan = std::sync::Arc::clone(other.plan());
    let (theirs_page, rings) = for_other;
    other.join(Line::new(Parts {
        peer: first,
        made: theirs,
        theirs: theirs_page,
        rings,
        spots: &plan.incoming,
        button: button_of_one,
        life: None,
    })?);
    Ok(())
}

fn made(own: &Station, peer: &Station) -> Result<Made, Error> {
    let node = peer.own();
    make(own.own().0, 1, &own.plan().outgoing, |machine| own.plan().hears(node, machine))
}

/// Maps what the other side shows.
fn shown(made: &Made) -> Result<(crate::map::Shown, Vec<Seen>), Error> {
    let uid = rustix::process::geteuid().as_raw();
    let mut all = made.give.iter().map(|(label, descriptor)| {
        let copy = descriptor.try_clone().map_err(|source| Error::System { call: "dup", source })?;
        Ok::<_, Error>((label.queue, see(copy, Agreed { words: label.words, uid })?))
    });
    let (_, page) = all.next().transpose()?.ok_or(Error::Unexpected)?;
    assert!(page.count() == PAGE_WORDS as usize, "the page is shown first");
    let mut rings = Vec::new();
    for (order, ring) in (0..).zip(all) {
        let (word, words) = ring?;
        let (machine, queue) = named(word);
        rings.push(Seen { machine, queue, order, words });
    }
    Ok((page, rings))
}
