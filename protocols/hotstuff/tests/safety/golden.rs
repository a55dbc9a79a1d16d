//! Golden conversations: short runs written down line by line, compared with `tests/golden`.

use std::path::{Path, PathBuf};

use synod_hotstuff::{Pack, Parameters};
use synod_machine::Span;

use crate::world::{Setup, World};

/// A file of `tests/golden`.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// Compares text with a golden file, or writes it when `SYNOD_BLESS` is 1.
#[expect(clippy::disallowed_methods, reason = "golden files are read and, on purpose, written by tests")]
pub(crate) fn assert_golden(name: &str, text: &str) {
    let path = file(name);
    if std::env::var("SYNOD_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).position(|(old, new)| old != new);
    let at = differs.unwrap_or_else(|| kept.lines().count().min(text.lines().count()));
    let line = |of: &str| of.lines().nth(at).unwrap_or("(the end)").to_owned();
    assert!(
        kept == text,
        "{name} differs in line {}:\n  kept {}\n  now  {}\nSYNOD_BLESS=1 writes it anew; read the difference",
        at + 1,
        line(&kept),
        line(text)
    );
}

/// The defaults of the pack: what a cluster of four runs with.
const fn defaults(_: &mut Parameters) {}

/// Four replicas with the pack's defaults, written down.
pub(crate) fn four(pack: Pack) -> World {
    World::new(Setup { tweak: defaults, traced: true, ..Setup::of(pack, &[0, 1, 2, 3]) })
}

fn compare(name: &str, world: &World, head: &str) {
    let lines = world.lines.clone().expect("the world is traced");
    assert!(lines.len() > 20, "{name}: {} lines", lines.len());
    let text = format!("# {head}\n# Columns: virtual milliseconds, who does what.\n\n{}\n", lines.join("\n"));
    assert_golden(name, &text);
}

/// One command in an idle cluster, submitted at a member that does not lead.
pub(crate) fn one_command(pack: Pack, at: u32) -> World {
    let mut world = four(pack);
    world.run(Span::millis(1));
    world.submit(at, "hello");
    world.run(Span::millis(60));
    for id in 0..4 {
        assert_eq!(world.seat(id).texts(), ["hello"], "{pack:?} n{id}");
    }
    world
}

/// The leader of the first term is dead: the others give its term up and go on.
pub(crate) fn view_change() -> World {
    let mut world = four(Pack::Chain2Order);
    world.seat_mut(0).crash(0);
    world.submit(2, "hello");
    world.run(Span::millis(600));
    for id in 1..4 {
        assert_eq!(world.seat(id).texts(), ["hello"], "n{id}");
    }
    world
}

/// A member is killed between its vote and the commit, and comes back over its journal.
pub(crate) fn restart() -> World {
    let mut world = four(Pack::Chain2Order);
    world.submit(0, "hello");
    world.run(Span::micros(1_500));
    assert!(world.voted(2, &proposed(&world)), "n2 voted before it is killed");
    world.flight.retain(|envelope| envelope.from != 2);
    world.restart_whole(2);
    for id in [0, 1, 3] {
        world.link_up(2, id);
        world.link_up(id, 2);
    }
    world.run(Span::millis(60));
    for id in 0..4 {
        assert_eq!(world.seat(id).texts(), ["hello"], "n{id}");
    }
    world
}

fn proposed(world: &World) -> crate::world::Made {
    let header = world.said.iter().find_map(|(_, message)| match message {
        synod_hotstuff::Message::Propose { header, .. } => Some(header.clone()),
        _ => None,
    });
    let body = synod_hotstuff::Body::pack(vec![crate::world::item("hello")]);
    crate::world::Made { header: header.expect("a proposal"), body }
}

/// One view of the basic pack: prepare, pre-commit, commit, decide.
#[test]
fn the_basic_pack_decides_in_three_phases_as_written_down() {
    let head = "Basic pack, n = 4: n2 is given one command; n1 leads view 1 through its three phases.";
    compare("hotstuff_basic.txt", &one_command(Pack::Basic, 2), head);
}

/// Three chained blocks.
#[test]
fn a_three_chain_commits_as_written_down() {
    let head = "Pack chain3, n = 4: n2 is given one command; two empty blocks by the next leaders move it to its commit.";
    compare("hotstuff_chain3.txt", &one_command(Pack::Chain3, 2), head);
}

/// Two chained blocks.
#[test]
fn a_two_chain_commits_as_written_down() {
    let head = "Pack chain2, n = 4: n2 is given one command; n0 leads its term of 32 views, one empty block commits.";
    compare("hotstuff_chain2.txt", &one_command(Pack::Chain2, 2), head);
}

/// Order votes.
#[test]
fn order_votes_commit_as_written_down() {
    let head = "Pack chain2+order, n = 4: n2 is given one command; order votes commit it in the view it was proposed in.";
    compare("hotstuff_order.txt", &one_command(Pack::Chain2Order, 2), head);
}

/// A term is given up.
#[test]
fn a_term_is_given_up_as_written_down() {
    let head = "Pack chain2+order, n = 4: n0, the first leader, is dead; after the timeout its term is given up and n1 leads.";
    compare("hotstuff_viewchange.txt", &view_change(), head);
}

/// A member comes back.
#[test]
fn a_restarted_member_repeats_itself_as_written_down() {
    let head = "Pack chain2+order, n = 4: n2 is killed after its vote and before it left; it comes back and says the same.";
    compare("hotstuff_restart.txt", &restart(), head);
}

/// The same run twice gives the same lines.
#[test]
fn a_conversation_is_the_same_each_time() {
    for run in [view_change as fn() -> World, restart] {
        assert_eq!(run().lines, run().lines);
    }
}
