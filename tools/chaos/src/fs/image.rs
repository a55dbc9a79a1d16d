//! The bytes of a file, in pages that images share until one of them changes.

use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: usize = 4096;

/// The bytes of a file. What was never written reads as zeros and takes no room.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
    length: u64,
}

/// The page an offset is in, and where in it.
fn place(at: u64) -> (u64, usize) {
    let page = PAGE as u64;
    (at / page, index(at % page))
}

/// A length as an index: images are far smaller than the address space.
pub(super) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("an image fits into memory")
}

impl Image {
    /// Length in bytes.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that take room.
    pub(super) fn allocated(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    /// The parts that were written, with their offsets, rounded up to whole pages.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().map(|(page, bytes)| (page * PAGE as u64, &bytes[..]))
    }

    /// Cuts the file off, or extends it with zeros.
    pub(super) fn resize(&mut self, length: u64) {
        if length < self.length {
            let (page, within) = place(length);
            self.pages.split_off(&(page + u64::from(within > 0)));
            if let Some(last) = self.pages.get_mut(&page).filter(|_| within > 0) {
                Arc::make_mut(last)[within..].fill(0);
            }
        }
        self.length = length;
    }

    /// Puts bytes at an offset, extending the file if it ends before them.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut rest = bytes;
        let mut at = at;
        while !rest.is_empty() {
            let (page, within) = place(at);
            let step = rest.len().min(PAGE - within);
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[within..within + step].copy_from_slice(&rest[..step]);
            rest = &rest[step..];
            at += step as u64;
        }
        self.length = self.length.max(at);
    }

    /// At most `size` bytes from an offset; fewer at the end of the file.
    pub(super) fn read(&self, at: u64, size: usize) -> Vec<u8> {
        let size = size.min(index(self.length.saturating_sub(at)));
        let mut out = Vec::with_capacity(size);
        while out.len() < size {
            let (page, within) = place(at + out.len() as u64);
            let step = (size - out.len()).min(PAGE - within);
            match self.pages.get(&page) {
                Some(page) => out.extend_from_slice(&page[within..within + step]),
                None => out.resize(out.len() + step, 0),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::Image;

    #[test]
    fn what_was_not_written_reads_as_zeros_and_what_was_cut_off_does_not_come_back() {
        let mut image = Image::default();
        image.write(4_090, b"0123456789");
        assert_eq!((image.length(), image.allocated()), (4_100, 8_192));
        assert_eq!(image.read(4_088, 100), b"\0\x000123456789");
        image.resize(4_092);
        image.resize(9_000);
        assert_eq!(image.read(4_090, 6), b"01\0\0\0\0");
        assert_eq!(image.read(8_999, 6), b"\0");
        assert_eq!(image.read(9_000, 6), b"");
        assert_eq!(image.allocated(), 4_096);
    }

    #[test]
    fn a_copy_does_not_change_with_its_original() {
        let mut image = Image::default();
        image.write(0, b"before");
        let copy = image.clone();
        image.write(0, b"after!");
        assert_eq!(copy.read(0, 6), b"before");
    }
}
