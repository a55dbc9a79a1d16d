//! What members endorsed, and what is certified by that: X4, A-S3, A-S4 of endorsements.
//!
//! An entry counts as certified once members that never lied and did not except it, together with all that may lie, are a quorum
//! of one batch that holds it; then every entry below it on its chain is. Two certified entries of one place are money spent twice.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_ledger::{EntryId, genesis};

use super::{BatchSeen, Reckoning, Texts, quorum};
use crate::oracle::{Verdict, breach};

/// A lane and a number.
pub type Slot = (u8, u64);

/// One member's statement about a slot.
#[derive(Clone, Debug)]
struct Said {
    digest: Hash,
    except: BTreeSet<u32>,
}

/// An endorsement that a crash can take back.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    lsn: u64,
    slot: Slot,
    batch: Hash,
    id: EntryId,
    line: Hash,
}

/// Who endorsed what.
#[derive(Clone, Debug)]
pub struct Acks {
    members: u32,
    liars: BTreeSet<u32>,
    said: BTreeMap<Slot, BTreeMap<u32, Said>>,
    /// What of each slot a member's records leave out.
    judged: BTreeMap<(u32, Slot), BTreeSet<u32>>,
    /// Slots that members judged since they started last.
    current: BTreeSet<(u32, Slot)>,
    /// The last entry that each member endorsed at each place, for good.
    endorsed: BTreeMap<(u32, EntryId), Hash>,
    /// The same, oldest first, not yet on the disk.
    fresh: BTreeMap<u32, Vec<Fresh>>,
    /// Entries that each member had in their place, by an order or a record.
    held: BTreeMap<u32, BTreeSet<Hash>>,
    certified: BTreeMap<EntryId, Hash>,
    /// Entries that a batch of their own certifies; `None` where a later entry's certificate is as good.
    alone: Option<BTreeSet<Hash>>,
}

impl Acks {
    /// Of so many members.
    #[must_use]
    pub fn new(members: u32) -> Self {
        Self {
            members,
            liars: BTreeSet::new(),
            said: BTreeMap::new(),
            judged: BTreeMap::new(),
            current: BTreeSet::new(),
            endorsed: BTreeMap::new(),
            fresh: BTreeMap::new(),
            held: BTreeMap::new(),
            certified: BTreeMap::new(),
            alone: None,
        }
    }

    /// Of members who settle an entry by a certificate of its own alone.
    #[must_use]
    pub fn one_by_one(members: u32) -> Self {
        Self { alone: Some(BTreeSet::new()), ..Self::new(members) }
    }

    /// A member need not follow the protocol, from now on: it may have signed anything.
    ///
    /// # Errors
    /// A-S3: two entries of one place are certified.
    pub fn fault(&mut self, texts: &Texts, node: u32) -> Verdict {
        if node >= self.members || !self.liars.insert(node) {
            return Ok(());
        }
        let slots: Vec<Slot> = self.said.keys().copied().collect();
        slots.into_iter().try_for_each(|slot| self.count(texts, slot))
    }

    /// Whether a member always followed the protocol.
    #[must_use]
    pub fn honest(&self, node: u32) -> bool {
        !self.liars.contains(&node)
    }

    /// A member has an entry in its place, endorsed or not.
    pub fn hold(&mut self, node: u32, digest: Hash) {
        self.held.entry(node).or_default().insert(digest);
    }

    /// Honest members that endorse an item of a batch; with no item, that endorse anything of it.
    fn supporters(&self, slot: Slot, digest: &Hash, item: Option<u32>) -> u32 {
        let all = self.said.get(&slot).into_iter().flatten();
        let of = all.filter(|(node, said)| {
            self.honest(**node)
                && said.digest == *digest
                && item.is_none_or(|item| !said.except.contains(&item))
        });
        u32::try_from(of.count()).unwrap_or(u32::MAX)
    }

    /// Whether a quorum can have signed a batch, or an item of it.
    #[must_use]
    pub fn certifiable(&self, batch: &BatchSeen, digest: &Hash, item: Option<u32>) -> bool {
        let liars = u32::try_from(self.liars.len()).unwrap_or(u32::MAX);
        self.supporters(batch.slot, digest, item) + liars >= quorum(self.members)
    }

    /// Whether an entry is certified, by a batch or, where that is enough, by a later entry of its chain.
    #[must_use]
    pub fn is_certified(&self, id: EntryId, digest: &Hash) -> bool {
        let is_own = self.alone.as_ref().is_none_or(|alone| alone.contains(digest));
        is_own && self.certified.get(&id) == Some(digest)
    }

    /// An honest member signs that a payload has a slot, and that it endorses all of it but some entries.
    ///
    /// # Errors
    /// X4: it signed something else for this slot, or takes something back; A-S4: it lists what it may not; A-S3.
    pub fn say(
        &mut self,
        texts: &Texts,
        (node, slot): (u32, Slot),
        (digest, except): (Hash, &[u32]),
    ) -> Verdict {
        let except: BTreeSet<u32> = except.iter().copied().collect();
        let before = self.said.get(&slot).and_then(|all| all.get(&node)).cloned();
        if let Some(before) = &before {
            if before.digest != digest {
                return breach("X4", format!("member {node} signs two payloads for slot {slot:?}"));
            }
            if before.except == except {
                return Ok(());
            }
            if !except.is_subset(&before.except) {
                return breach("X4", format!("member {node} takes back what it endorsed in slot {slot:?}"));
            }
        }
        let Some(batch) = texts.batch(&digest) else {
            return breach("X3", format!("member {node} signs for slot {slot:?} what nobody showed"));
        };
        closed(node, batch, &except)?;
        self.said.entry(slot).or_default().insert(node, Said { digest, except });
        self.count(texts, slot)
    }

    /// An honest member put these lists of exceptions together to a certificate: it looked at all of them.
    ///
    /// # Errors
    /// A-S4: a list in it is not closed, whoever signed it.
    pub fn gather<'a>(
        &self,
        texts: &Texts,
        (node, digest): (u32, Hash),
        lists: impl Iterator<Item = &'a [u32]>,
    ) -> Verdict {
        let Some(batch) = texts.batch(&digest) else { return Ok(()) };
        for list in lists {
            let except: BTreeSet<u32> = list.iter().copied().collect();
            if closed(node, batch, &except).is_err() {
                let what = format!("member {node} certifies {:?} by a list that is not closed", batch.slot);
                return breach("A-S4", what);
            }
        }
        Ok(())
    }

    /// An honest member writes that it endorses a batch but for some entries.
    ///
    /// # Errors
    /// X4: it endorses two entries for one place, and no certificate came between; A-S4: it endorses an entry behind one that it
    /// does not have, or beside what settled there.
    pub fn endorse(
        &mut self,
        texts: &Texts,
        (node, lsn): (u32, u64),
        (slot, digest): (Slot, Hash),
        except: &[u32],
        settled: Option<&Reckoning>,
    ) -> Verdict {
        let except: BTreeSet<u32> = except.iter().copied().collect();
        let before = self.judged.insert((node, slot), except.clone());
        self.current.insert((node, slot));
        let Some(batch) = texts.batch(&digest) else { return Ok(()) };
        for (at, (id, line)) in (0_u32..).zip(&batch.lines) {
            let is_new = before.as_ref().is_none_or(|before| before.contains(&at));
            if is_new && !except.contains(&at) {
                let fresh = Fresh { lsn, slot, batch: digest, id: *id, line: *line };
                let purse = settled.and_then(|settled| settled.purse(id.spender));
                if purse.is_some_and(|purse| !purse.leads_to(texts, *id, *line)) {
                    return breach(
                        "A-S4",
                        format!("member {node} endorses {id:?}, and another chain settled"),
                    );
                }
                self.place(texts, node, fresh)?;
            }
        }
        Ok(())
    }

    fn place(&mut self, texts: &Texts, node: u32, new: Fresh) -> Verdict {
        let Fresh { id, line, .. } = new;
        let fresh = self.fresh.get(&node).into_iter().flatten().rev().find(|fresh| fresh.id == id);
        let before = fresh.map(|fresh| fresh.line).or_else(|| self.endorsed.get(&(node, id)).copied());
        if let Some(before) = before.filter(|before| *before != line)
            && !self.displaced(texts, before, line)
        {
            return breach("X4", format!("member {node} endorses two entries for {id:?}"));
        }
        let prev = texts.get(&line).map(|entry| entry.prev);
        let below = id.n.checked_sub(1).filter(|n| *n > 0).map(|n| EntryId { n, ..id });
        let follows = match (prev, below) {
            (Some(prev), None) => prev == genesis(id.spender),
            (Some(prev), Some(below)) => self.has(node, below, &prev),
            (None, _) => false,
        };
        if !follows {
            return breach("A-S4", format!("member {node} endorses {id:?} behind an entry it does not have"));
        }
        self.hold(node, line);
        self.fresh.entry(node).or_default().push(new);
        Ok(())
    }

    /// Everything that a member wrote up to here is on the disk.
    pub fn durable(&mut self, node: u32, until: u64) {
        let mut fresh = self.fresh.remove(&node).unwrap_or_default();
        let later = fresh.split_off(fresh.partition_point(|fresh| fresh.lsn <= until));
        self.endorsed.extend(fresh.into_iter().map(|fresh| ((node, fresh.id), fresh.line)));
        if !later.is_empty() {
            self.fresh.insert(node, later);
        }
    }

    /// A member starts; `kept` says which batch its records endorse in a slot, and what they leave out of it.
    pub fn open(&mut self, node: u32, kept: &BTreeMap<Slot, (Hash, BTreeSet<u32>)>) {
        for fresh in self.fresh.remove(&node).unwrap_or_default() {
            if kept.get(&fresh.slot).is_some_and(|(batch, _)| *batch == fresh.batch) {
                self.endorsed.insert((node, fresh.id), fresh.line);
            }
        }
        self.judged.retain(|(of, _), _| *of != node);
        self.current.retain(|(of, _)| *of != node);
        let judged = kept.iter().map(|(slot, (_, except))| ((node, *slot), except.clone()));
        self.judged.extend(judged);
    }

    fn has(&self, node: u32, id: EntryId, digest: &Hash) -> bool {
        self.certified.get(&id) == Some(digest)
            || self.held.get(&node).is_some_and(|held| held.contains(digest))
    }

    /// Whether a certificate put `new` in the place of `old`: their chains part at an entry of the new one that is certified.
    fn displaced(&self, texts: &Texts, old: Hash, new: Hash) -> bool {
        let (mut old, mut new) = (old, new);
        while old != new {
            let (Some(one), Some(other)) = (texts.get(&old), texts.get(&new)) else { return false };
            if self.certified.get(&other.id) == Some(&new) {
                return true;
            }
            (old, new) = (one.prev, other.prev);
        }
        false
    }

    /// Looks which entries of a slot are certified by now.
    fn count(&mut self, texts: &Texts, slot: Slot) -> Verdict {
        let digests: BTreeSet<Hash> =
            self.said.get(&slot).into_iter().flatten().map(|(_, said)| said.digest).collect();
        for digest in digests {
            let Some(batch) = texts.batch(&digest) else { continue };
            for (at, (_, line)) in (0_u32..).zip(&batch.lines) {
                if self.certifiable(batch, &digest, Some(at)) {
                    if let Some(alone) = &mut self.alone {
                        alone.insert(*line);
                    }
                    self.certify(texts, *line)?;
                }
            }
        }
        Ok(())
    }

    /// An entry is certified, and with it all below it.
    fn certify(&mut self, texts: &Texts, line: Hash) -> Verdict {
        let mut at = line;
        while let Some(entry) = texts.get(&at) {
            match self.certified.insert(entry.id, at) {
                None => {}
                Some(known) if known == at => return Ok(()),
                Some(_) => {
                    return breach("A-S3", format!("two entries of {:?} are certified", entry.id));
                }
            }
            at = entry.prev;
        }
        Ok(())
    }

    /// Whether a member looked at a slot since it started, and leaves an item of it out to this day.
    #[must_use]
    pub fn leaves_out(&self, node: u32, slot: Slot, item: u32) -> bool {
        let left = self.judged.get(&(node, slot)).filter(|_| self.current.contains(&(node, slot)));
        left.is_some_and(|left| left.contains(&item))
    }

    /// Whether any entry of a place is certified.
    #[must_use]
    pub fn is_any_certified(&self, id: EntryId) -> bool {
        self.certified.contains_key(&id)
    }

    /// Whether a member signed that a payload has a slot.
    #[must_use]
    pub fn has_said(&self, node: u32, slot: Slot, digest: &Hash) -> bool {
        let said = self.said.get(&slot).and_then(|all| all.get(&node));
        said.is_some_and(|said| said.digest == *digest)
    }

    /// How many entries are certified.
    #[must_use]
    pub fn certified(&self) -> u64 {
        self.certified.len() as u64
    }
}

/// Behind an entry that is excepted every later one of its log is.
fn closed(node: u32, batch: &BatchSeen, except: &BTreeSet<u32>) -> Verdict {
    let mut behind = BTreeSet::new();
    for (at, (id, _)) in (0_u32..).zip(&batch.lines) {
        if except.contains(&at) {
            behind.insert(id.spender);
        } else if behind.contains(&id.spender) {
            return breach(
                "A-S4",
                format!("member {node} endorses {id:?} and excepts an entry before it in {:?}", batch.slot),
            );
        }
    }
    Ok(())
}
