//! Rows: offsets, timestamps, and the positions of keys, values and headers (`records/kernel.py`,
//! ROW_FIELDS).

use super::Sink;
use crate::item::Item;
use crate::layout::{ROW_FIELDS, ROW_SIZE, V1};
use crate::outcome::Outcome;

/// Writes a row for each item.
pub struct Rows<'a> {
    /// The address of the source buffer. Positions are relative to it.
    source: usize,
    target: &'a mut [u8],
    filled: usize,
}

impl<'a> Rows<'a> {
    pub fn new(source: &[u8], target: &'a mut [u8]) -> Self {
        let source = source.as_ptr().addr();
        Self { source, target, filled: 0 }
    }

    /// The position of this part in the source.
    #[inline(always)]
    fn index_of(&self, part: &[u8]) -> i64 {
        part.as_ptr().addr().wrapping_sub(self.source) as i64
    }
}

impl Sink for Rows<'_> {
    const CONVERTS: bool = false;
    const MAGIC: u8 = V1; // none
    const READS_ALL: bool = false;

    #[inline(always)]
    fn put(&mut self, item: &Item<'_>, _: i64) -> Result<usize, Outcome> {
        let row: [i64; ROW_FIELDS] = [
            item.offset,
            item.timestamp,
            i64::from(item.timestamp_type),
            self.index_of(item.key.bytes),
            i64::from(item.key.size),
            self.index_of(item.value.bytes),
            i64::from(item.value.size),
            self.index_of(item.headers),
            item.headers.len() as i64,
            i64::from(item.headers_count),
        ];
        let room =
            self.target[self.filled..].first_chunk_mut::<ROW_SIZE>().ok_or(Outcome::Target)?;
        for (room, field) in room.chunks_exact_mut(8).zip(row) {
            room.copy_from_slice(&field.to_ne_bytes());
        }
        self.filled += ROW_SIZE;
        Ok(ROW_SIZE)
    }

    /// Never called: entries are copied only by a conversion.
    fn copy(&mut self, _: &[u8]) -> Result<(), Outcome> {
        Err(Outcome::Batch)
    }

    fn produced(&self) -> u64 {
        self.filled as u64
    }
}
