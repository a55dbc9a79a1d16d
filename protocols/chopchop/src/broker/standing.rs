//! Where clients stand at this broker, by id: a place in a row instead of a search.
//!
//! *Bounds.* 24 bytes for each id up to the highest that submitted, and as many again while the row grows. Ids are those of
//! the directory here.

/// No number.
const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Standing {
    /// Highest number admitted, or [`NONE`]: the last number of all is nobody's.
    highest: u64,
    /// The newest batch with an entry of it, from 1, or 0.
    batch: u64,
    index: u32,
}

/// Where all clients stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Standings(Vec<Standing>);

impl Standings {
    fn of(&mut self, id: u32) -> &mut Standing {
        let at = id as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, Standing { highest: NONE, batch: 0, index: 0 });
        }
        &mut self.0[at]
    }

    fn get(&self, id: u32) -> Option<&Standing> {
        self.0.get(id as usize)
    }

    /// The highest number that was admitted of a client.
    pub(super) fn highest(&self, id: u32) -> Option<u64> {
        self.get(id).map(|standing| standing.highest).filter(|highest| *highest != NONE)
    }

    pub(super) fn set_highest(&mut self, id: u32, k0: u64) {
        self.of(id).highest = k0;
    }

    /// The newest batch with an entry of a client, and which one.
    pub(super) fn place(&self, id: u32) -> Option<(u64, u32)> {
        self.get(id).filter(|standing| standing.batch != 0).map(|standing| (standing.batch, standing.index))
    }

    pub(super) fn set_place(&mut self, id: u32, (batch, index): (u64, u32)) {
        let standing = self.of(id);
        (standing.batch, standing.index) = (batch, index);
    }

    /// The batch is forgotten; a newer one is not.
    pub(super) fn leave(&mut self, id: u32, batch: u64) {
        let standing = self.of(id);
        if standing.batch == batch {
            standing.batch = 0;
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        24 * self.0.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Standings;

    #[test]
    fn a_client_stands_in_its_newest_batch_until_that_is_forgotten() {
        let mut all = Standings::default();
        assert_eq!((all.place(3), all.highest(3)), (None, None));
        all.set_place(3, (1, 7));
        all.set_highest(3, 0);
        all.set_place(3, (2, 5));
        all.leave(3, 1);
        assert_eq!((all.place(3), all.highest(3)), (Some((2, 5)), Some(0)));
        all.leave(3, 2);
        assert_eq!((all.place(3), all.highest(3)), (None, Some(0)), "what it signed is not forgotten");
        assert_eq!((all.place(2), all.highest(4)), (None, None), "nobody else stands anywhere");
    }
}
