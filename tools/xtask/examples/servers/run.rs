//! The same slots for two adapters, a third one that takes over, and the comparison.

use anyhow::{Context as _, ensure};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synod_crypto::Hash;
use synod_service::{App, At, Position, Replies, Request, Wall};
use synod_wire::{Bytes, Drawn};

/// How often roots are compared, in slots.
const ROOT_EVERY: u64 = 16;

/// A command, and what it is counted as.
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) body: Bytes,
}

/// What draws commands, and tells errors from other replies.
pub(crate) struct Drive {
    pub(crate) draw: fn(&mut Drawn, u64) -> Asked,
    pub(crate) is_error: fn(&[u8]) -> bool,
}

/// What was counted of one command.
#[derive(Default)]
struct Count {
    asked: u64,
    errors: u64,
}

fn slot<A: App>(app: &mut A, at: &At, bodies: &[Bytes], spent: &mut Duration) -> Vec<Bytes> {
    let mut replies = Replies::default();
    let requests = (1..).zip(bodies).map(|(sequence, body)| Request { session: 1, sequence, body });
    let begun = Instant::now();
    app.execute(at, &mut { requests }, &mut replies);
    *spent += begun.elapsed();
    app.invariants();
    replies.drain().collect()
}

/// Asks the slots.
///
/// # Errors
/// The first slot in which a reply or a root differs.
pub(crate) fn same<A: App>(apps: [A; 3], drive: &Drive, slots: u64, seed: u64) -> anyhow::Result<()> {
    let [mut first, mut second, mut third] = apps;
    let (mut draw, mut counts, mut spent) =
        (Drawn::new(seed), BTreeMap::<String, Count>::new(), Duration::ZERO);
    let (mut time, mut asked, mut roots) = (10_000_000_000_u64, 0_u64, 0_u64);
    let (mut has_third, mut beside) = (false, Duration::ZERO);
    for number in 1..=slots {
        time += draw.below(400);
        let commands: Vec<Asked> = (0..1 + draw.below(32)).map(|_| (drive.draw)(&mut draw, time)).collect();
        let bodies: Vec<Bytes> = commands.iter().map(|command| command.body.clone()).collect();
        let at = At { position: Position(number), time: Wall(time), draw: Hash::of(&number.to_le_bytes()) };
        let replies = slot(&mut first, &at, &bodies, &mut spent);
        let others = slot(&mut second, &at, &bodies, &mut beside);
        compare(number, &commands, &replies, &others).context("the second server")?;
        if has_third {
            let others = slot(&mut third, &at, &bodies, &mut beside);
            compare(number, &commands, &replies, &others).context("the restored server")?;
        }
        for (command, reply) in commands.iter().zip(&replies) {
            let count = counts.entry(command.name.clone()).or_default();
            (count.asked, asked) = (count.asked + 1, asked + 1);
            count.errors += u64::from((drive.is_error)(reply));
        }
        if number.is_multiple_of(ROOT_EVERY) || number == slots {
            roots += 1;
            let root = first.root();
            ensure!(second.root() == root, "slot {number}: the second server has another root");
            ensure!(
                !has_third || third.root() == root,
                "slot {number}: the restored server has another root"
            );
        }
        if number == slots / 2 {
            let root = first.root();
            for index in 0..first.chunks() {
                third.restore(index, &first.chunk(index)).map_err(|why| anyhow::anyhow!("{why:?}"))?;
            }
            ensure!(third.root() == root, "slot {number}: the restored state has another root");
            println!("slot {number}: the third server took over {} chunks, root {root}", first.chunks());
            has_third = true;
        }
    }
    ensure!(has_third, "two slots at least");
    let answered = counts.values().filter(|count| count.errors < count.asked).count();
    println!("command, asked, of them answered by an error:");
    counts.iter().for_each(|(name, count)| println!("  {name:<16} {:>6} {:>6}", count.asked, count.errors));
    println!("{slots} slots, {asked} commands of {} names, {answered} of them answered", counts.len());
    println!("replies equal on all servers, {roots} roots equal, the last one {}", first.root());
    println!("{} ns per command through the first adapter", spent.as_nanos() / u128::from(asked.max(1)));
    Ok(())
}

fn compare(slot: u64, commands: &[Asked], one: &[Bytes], other: &[Bytes]) -> anyhow::Result<()> {
    ensure!(one.len() == commands.len() && other.len() == one.len(), "slot {slot}: a reply is missing");
    for ((command, one), other) in commands.iter().zip(one).zip(other) {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        ensure!(
            one == other,
            "slot {slot}: {:?} is answered by {:?} and {:?}",
            text(&command.body),
            text(one),
            text(other)
        );
    }
    Ok(())
}
