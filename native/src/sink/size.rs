//! The size of messages, without writing them.

use super::Sink;
use super::messages::message_size;
use crate::item::Item;
use crate::outcome::Outcome;

/// Adds up the bytes that `Messages` would write into a target of `room` bytes.
pub struct Size<const MAGIC: u8> {
    room: u64,
    left: u64,
}

impl<const MAGIC: u8> Size<MAGIC> {
    pub fn new(room: u64) -> Self {
        Self { room, left: room }
    }

    #[inline(always)]
    fn add(&mut self, size: usize) -> Result<usize, Outcome> {
        self.left = self.left.checked_sub(size as u64).ok_or(Outcome::Target)?;
        Ok(size)
    }
}

impl<const MAGIC: u8> Sink for Size<MAGIC> {
    const CONVERTS: bool = true;
    const MAGIC: u8 = MAGIC;
    const READS_ALL: bool = false;

    #[inline(always)]
    fn put(&mut self, item: &Item<'_>, _: i64) -> Result<usize, Outcome> {
        self.add(message_size::<MAGIC>(item))
    }

    fn copy(&mut self, entry: &[u8]) -> Result<(), Outcome> {
        self.add(entry.len()).map(drop)
    }

    fn produced(&self) -> u64 {
        self.room - self.left
    }
}
