//! U-S6, of what is written: a correct replica writes its own registers alone, and with stamps that rise.

use std::collections::BTreeMap;

use synod_machine::register::{Held, Place};

use crate::oracle::{Verdict, breach};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Written {
    last: BTreeMap<(u32, Place), Held>,
    count: u64,
}

impl Written {
    /// Different values that were written.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// A correct replica writes a register.
    ///
    /// # Errors
    /// U-S6 if it is another's, or has what is newer or something else of the same stamp.
    pub fn write(&mut self, (node, life): (u32, u32), place: Place, held: Held) -> Verdict {
        if u32::from(place.region.owner) != node {
            breach("U-S6", format!("replica {node} writes a register of {}", place.region.owner))?;
        }
        let old = self.last.insert((life, place), held);
        self.count += u64::from(old != Some(held));
        match old {
            Some(old) if old.stamp > held.stamp || (old.stamp == held.stamp && old != held) => {
                breach("U-S6", format!("replica {node} writes stamp {} over {}", held.stamp, old.stamp))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_machine::register::Region;

    use super::*;

    #[test]
    fn stamps_rise_and_nobody_writes_what_is_not_its_own() {
        let place = Place { region: Region { epoch: Default::default(), owner: 1 }, index: 3 };
        let held = |stamp, byte| Held { stamp, value: [byte; 96] };
        let mut written = Written::default();
        assert_eq!(written.write((1, 1), place, held(4, 1)), Ok(()));
        assert_eq!(written.write((1, 1), place, held(4, 1)), Ok(()), "said again");
        assert!(written.clone().write((1, 1), place, held(4, 2)).is_err());
        assert!(written.clone().write((1, 1), place, held(3, 1)).is_err());
        assert!(written.clone().write((2, 1), place, held(5, 1)).is_err());
        assert_eq!((written.write((1, 1), place, held(20, 2)), written.count()), (Ok(()), 2));
    }
}
