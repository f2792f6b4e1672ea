//! A summary of a batch's records: what a broker checks before it stores them unchanged.

use super::Sink;
use crate::item::Item;
use crate::layout::V1;
use crate::outcome::Outcome;

/// Facts about all records that were put.
pub struct Summary {
    pub count: u64,
    /// Whether the offsets rise by one from the first expected one.
    pub is_dense: bool,
    pub oldest: i64,
    pub newest: i64,
    /// The number of records without a key.
    pub without_key: u64,
    next_offset: i64,
}

impl Summary {
    /// `first_offset`: the expected one.
    pub fn new(first_offset: i64) -> Self {
        Self {
            count: 0,
            is_dense: true,
            oldest: i64::MAX,
            newest: i64::MIN,
            without_key: 0,
            next_offset: first_offset,
        }
    }
}

impl Sink for Summary {
    const CONVERTS: bool = false;
    const MAGIC: u8 = V1; // none
    const READS_ALL: bool = false;

    #[inline(always)]
    fn put(&mut self, item: &Item<'_>, _: i64) -> Result<usize, Outcome> {
        self.count += 1;
        self.is_dense &= item.offset == self.next_offset;
        self.next_offset = self.next_offset.wrapping_add(1);
        self.oldest = self.oldest.min(item.timestamp);
        self.newest = self.newest.max(item.timestamp);
        self.without_key += u64::from(item.key.size < 0);
        Ok(1)
    }

    /// Never called: entries are copied only by a conversion.
    fn copy(&mut self, _: &[u8]) -> Result<(), Outcome> {
        Err(Outcome::Batch)
    }

    fn produced(&self) -> u64 {
        self.count
    }
}
