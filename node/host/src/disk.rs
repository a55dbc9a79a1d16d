//! The journal's directory with a watch beside it: how long each sync takes, and what is written.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use synod_journal::Disk;

use crate::watch::Watch;

/// A disk whose syncs are timed.
pub(crate) struct Timed<D> {
    disk: D,
    watch: Arc<Watch>,
}

impl<D> Timed<D> {
    pub(crate) const fn new(disk: D, watch: Arc<Watch>) -> Self {
        Self { disk, watch }
    }
}

impl<D: Disk> Disk for Timed<D> {
    fn lock(&mut self) -> io::Result<Option<u32>> {
        self.disk.lock()
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        self.disk.create(name, bytes)
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        self.disk.length(name)
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(name, offset, into)
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.disk.write_at(name, offset, bytes)?;
        self.watch.meters().wrote(u64::try_from(taken).unwrap_or(u64::MAX));
        Ok(taken)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let begun = Instant::now();
        let done = self.disk.sync(name);
        self.watch.meters().fsync.time(begun.elapsed());
        done
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
}

#[cfg(test)]
mod tests {
    use synod_journal::memory::MemDisk;

    use super::*;

    #[test]
    fn each_sync_is_timed_and_each_byte_counted() {
        let watch = Arc::new(Watch::default());
        let mut disk = Timed::new(MemDisk::new(), watch.clone());
        disk.create("a", 100).expect("an empty disk");
        assert_eq!(disk.write_at("a", 10, &[1; 7]).expect("room"), 7);
        disk.sync("a").expect("a sound disk");
        disk.sync_dir().expect("a sound disk");
        assert_eq!((watch.meters().fsync.read().count, watch.meters().wal_bytes()), (1, 7));
        assert_eq!(disk.list().expect("a sound disk"), ["a"]);
        assert_eq!(disk.length("a").expect("it is there"), 100);
        disk.rename("a", "b").expect("it is there");
        let mut read = [0; 7];
        disk.read_at("b", 10, &mut read).expect("it is there");
        assert_eq!(read, [1; 7]);
        disk.remove("b").expect("it is there");
        assert_eq!(disk.list().expect("a sound disk"), [""; 0]);
    }
}
