//! X5: a scenario gives the same run every time.

use crate::checker::Violation;
use crate::world::World;

/// Runs a scenario twice and gives the second world.
///
/// # Errors
/// The run's own violation, or X5 when the two digests differ.
pub fn twice(mut run: impl FnMut() -> Result<World, Violation>) -> Result<World, Violation> {
    let first = run()?.digest();
    let second = run()?;
    Violation::unless_equal(first, second.digest())?;
    Ok(second)
}
