//! Every stroke that somebody was told of, against the board of every server and the count of what each delivered.

use super::cluster::{ChopCluster, SERVERS};
use super::people::{self, People};
use super::storm::STROKES;
use crate::bench::Audit;
use crate::servers::{Servers, ask};
use std::time::{Duration, Instant};
use synod_config::{SynError, code};
use synod_crypto::Hash;
use synod_load::chop::client;
use synod_pixels::text;

/// How long servers may take to come to one height, and to show their boards.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a height may take.
const ANSWER: Duration = Duration::from_secs(2);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until every server answers and all have executed the same height; that height.
///
/// # Errors
/// SYN-6006 with the heights when they do not come to one.
pub(super) async fn settled(servers: &Servers) -> Result<u64, SynError> {
    let until = Instant::now() + PATIENCE;
    let mut last = None;
    loop {
        let heights = servers.heights(ANSWER).await;
        let same = same(&heights);
        if same.is_some() && same == last {
            return Ok(same.unwrap_or(0));
        }
        last = same;
        if Instant::now() >= until {
            let found = format!("heights {heights:?}");
            let values = [("height", "the end"), ("nodes", &*found)];
            return Err(
                SynError::of(code::STATE_DIVERGENCE, &values).because("servers did not come to one height")
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The height that every server states.
fn same(heights: &[(&str, Option<u64>)]) -> Option<u64> {
    let first = heights.first()?.1?;
    heights.iter().all(|(_, height)| *height == Some(first)).then_some(first)
}

/// Compares what was acknowledged with every board, and with what servers that were never killed delivered.
///
/// # Errors
/// Servers that do not answer.
pub(super) async fn audit(
    cluster: &ChopCluster,
    people: &People,
    killed: &[usize],
) -> Result<Audit, SynError> {
    let servers = Servers::connect(cluster.genesis())?;
    let height = settled(&servers).await?;
    let questions = text::board().map(|question| ask(height, question)).collect::<Result<Vec<_>, _>>()?;
    let told = servers.each(&questions, PATIENCE).await;
    let mut boards = Vec::new();
    for (name, tiles) in told {
        let Some(tiles) = tiles.into_iter().collect::<Option<Vec<_>>>() else {
            return Err(SynError::of(code::NO_ANSWER, &[("address", name), ("stage", "board")]));
        };
        boards.push(tiles.concat());
    }
    let strokes = expected(cluster.painters, people);
    let lost = boards.iter().map(|board| missing(board, &strokes)).max().unwrap_or(0);
    let acknowledged = u64::try_from(strokes.len()).unwrap_or(u64::MAX);
    let whole = (0..usize::from(SERVERS)).filter(|server| !killed.contains(server));
    let counts: Vec<u64> = whole.filter_map(|server| cluster.delivered(server)).collect();
    let digests: Vec<Hash> = boards.iter().map(|board| Hash::of(board)).collect();
    let beyond = |count: &u64| count.saturating_sub(acknowledged);
    let short = |count: &u64| acknowledged.saturating_sub(*count);
    Ok(Audit {
        lost: lost.max(counts.iter().map(short).max().unwrap_or(acknowledged)),
        duplicated: counts.iter().map(beyond).max().unwrap_or(0),
        wrong_reads: 0,
        state_hash_equal: digests.windows(2).all(|pair| pair[0] == pair[1]),
        members: boards.len(),
        keys: acknowledged,
    })
}

/// Every stroke that was acknowledged.
fn expected(painters: u32, people: &People) -> Vec<u64> {
    let crowd = (0..painters).flat_map(|m| (0..STROKES).map(move |at| client::stroke(m, STROKES, at)));
    let own = people
        .0
        .iter()
        .flat_map(|person| (0..person.strokes).filter_map(move |at| people::stroke(person.number(), at)));
    crowd.chain(own).collect()
}

/// How many strokes a board does not show.
fn missing(board: &[u8], strokes: &[u64]) -> u64 {
    let shows = |stroke: &u64| {
        let place = usize::try_from(stroke & 0x3f_ffff).ok()?.checked_mul(3)?;
        let found = board.get(place..)?.first_chunk::<3>()?;
        let colour = u32::try_from(stroke >> 22).ok()?.to_be_bytes();
        (found[..] == colour[1..]).then_some(())
    };
    u64::try_from(strokes.iter().filter(|stroke| shows(stroke).is_none()).count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stroke_that_is_not_on_the_board_is_missed() {
        let stroke = synod_pixels::operation(1, 0, 0x0a_0b0c).expect("on the board");
        assert_eq!(missing(&[0, 0, 0, 0x0a, 0x0b, 0x0c], &[stroke]), 0);
        assert_eq!(missing(&[0, 0, 0, 0x0a, 0x0b, 0x0d], &[stroke]), 1);
        assert_eq!(missing(&[0x0a, 0x0b, 0x0c], &[stroke, stroke]), 2);
    }

    #[test]
    fn a_silent_server_is_at_no_height() {
        assert_eq!(same(&[("n0", Some(3)), ("n1", Some(3))]), Some(3));
        assert_eq!(same(&[("n0", Some(3)), ("n1", Some(4))]), None);
        assert_eq!(same(&[("n0", Some(3)), ("n1", None)]), None);
        assert_eq!(same(&[]), None);
    }
}
