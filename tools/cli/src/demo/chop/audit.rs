//! Every stroke that somebody was told of, against the board of every server and the count of what each delivered.

use super::cluster::{ChopCluster, SERVERS};
use super::people::{self, People};
use super::storm::STROKES;
use crate::bench::Audit;
use crate::servers::{Servers, ask};
use std::time::Duration;
use synod_config::SynError;
use synod_crypto::Hash;
use synod_load::chop::client;
use synod_pixels::text;

/// How long servers may take to come to one height, and to show their boards.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
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
    let height = servers.settled(PATIENCE).await?;
    let questions = text::board().map(|question| ask(height, question)).collect::<Result<Vec<_>, _>>()?;
    let boards: Vec<Vec<u8>> =
        servers.all(&questions, PATIENCE).await?.iter().map(|tiles| tiles.concat()).collect();
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
        wrong_reads: None,
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
}
