//! The keeper: a thread that puts what the teller heard into the index, many at a time with one sync.

use std::collections::HashMap;
use std::sync::Weak;
use std::sync::mpsc::Receiver;

use synod_astro::Level;
use synod_ledger::EntryId;

use super::Teller;
use super::index::{Index, Kept};
use super::teller::Reply;

/// Most news that are kept with one sync.
const GROUP_MAX: usize = 1 << 14;

/// What the keeper hears.
pub(super) enum News {
    Keep(Kept),
    /// Somebody waits until the index has what was told before.
    Ask(Reply<()>),
}

impl From<Kept> for News {
    fn from(kept: Kept) -> Self {
        Self::Keep(kept)
    }
}

/// Keeps what it hears, many at a time with one sync.
pub(super) fn keep(heard: &Receiver<News>, index: &Index, teller: &Weak<Teller>) {
    let mut early: HashMap<EntryId, (u128, Level)> = HashMap::new();
    while let Ok(first) = heard.recv() {
        let mut group = vec![first];
        while group.len() < GROUP_MAX
            && let Ok(next) = heard.try_recv()
        {
            group.push(next);
        }
        let (mut kept, mut asking) = (Vec::new(), Vec::new());
        for news in group {
            match news {
                News::Keep(news) => kept.push(news),
                News::Ask(reply) => asking.push(reply),
            }
        }
        let group = kept;
        let names = group.iter().filter_map(|kept| match kept {
            Kept::Settled(_, entry) => Some((entry.id, entry.transfer, Level::Accepted)),
            Kept::Level(id, name, level) => Some((*id, *name, *level)),
            Kept::Certified(_) | Kept::Word(_) => None,
        });
        let names: Vec<(EntryId, u128, Level)> = names.collect();
        let keeping = index.keep_known(with_early(group, &mut early));
        for (id, name, level) in keeping.early {
            let known = early.entry(id).or_insert((name, level));
            known.1 = known.1.max(level);
        }
        if let Some(teller) = teller.upgrade() {
            teller.on_kept(keeping.position, &names);
        }
        for reply in asking {
            // Who asked may have gone.
            let _ = reply.send(Ok(()));
        }
    }
}

/// Levels that came before their entries settled here come with those.
fn with_early(mut group: Vec<Kept>, early: &mut HashMap<EntryId, (u128, Level)>) -> Vec<Kept> {
    if early.is_empty() {
        return group;
    }
    let settled = group
        .iter()
        .filter_map(|kept| if let Kept::Settled(_, entry) = kept { Some(entry.id) } else { None });
    let late = settled.filter_map(|id| early.remove(&id).map(|(name, level)| Kept::Level(id, name, level)));
    let late: Vec<Kept> = late.collect();
    group.extend(late);
    group
}
