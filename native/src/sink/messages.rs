//! Writes messages of v0 and v1.
//!
//! A CRC would have to wait for the stores of the bytes that it reads. So all messages of a call
//! are written first, and their CRCs are computed afterwards.

use super::Sink;
use crate::crc::crc32;
use crate::item::{Field, Item, LOG_APPEND_TIME};
use crate::layout::{
    self, CRC_AT_LEGACY, MAGIC_AT, MESSAGE_HEAD_SIZE_V0, MESSAGE_HEAD_SIZE_V1, PREFIX_SIZE,
    SIZE_FIELD_SIZE, V0, V1, message_overhead,
};
use crate::message::prefix;
use crate::outcome::Outcome;

/// Messages one after the other, with copied entries in between. Call `finish` last.
pub struct Messages<'a, const MAGIC: u8> {
    target: &'a mut [u8],
    filled: usize,
    summed: usize,
}

impl<'a, const MAGIC: u8> Messages<'a, MAGIC> {
    pub fn new(target: &'a mut [u8]) -> Self {
        Self { target, filled: 0, summed: 0 }
    }

    /// Computes and stores the missing CRCs.
    pub fn finish(&mut self) {
        let mut rest = &mut self.target[self.summed..self.filled];
        while let Some(head) = rest.first_chunk::<PREFIX_SIZE>() {
            let size = prefix(head).1 as usize;
            let (message, after) = rest.split_at_mut(PREFIX_SIZE + size);
            let crc = crc32(0, &message[MAGIC_AT..]);
            message[CRC_AT_LEGACY..MAGIC_AT].copy_from_slice(&crc.to_be_bytes());
            rest = after;
        }
        self.summed = self.filled;
    }

    #[inline(always)]
    fn room(&mut self, size: usize) -> Result<&mut [u8], Outcome> {
        let room = self.target[self.filled..].get_mut(..size).ok_or(Outcome::Target)?;
        self.filled += size;
        Ok(room)
    }
}

impl<const MAGIC: u8> Sink for Messages<'_, MAGIC> {
    const CONVERTS: bool = true;
    const MAGIC: u8 = MAGIC;
    const READS_ALL: bool = true;

    #[inline(always)]
    fn put(&mut self, item: &Item<'_>, offset: i64) -> Result<usize, Outcome> {
        let size = message_size::<MAGIC>(item);
        let message = self.room(size)?;
        let size_field = (size - PREFIX_SIZE) as u32;
        let body = if MAGIC == V0 {
            let (head, body) = message.split_first_chunk_mut().expect("a message has its head");
            *head = head_v0(offset, size_field, item.key.size);
            body
        } else {
            let (head, body) = message.split_first_chunk_mut().expect("a message has its head");
            *head = head_v1(offset, size_field, item);
            body
        };
        write_content(body, item.key, item.value);
        Ok(size)
    }

    fn copy(&mut self, entry: &[u8]) -> Result<(), Outcome> {
        self.finish();
        self.room(entry.len())?.copy_from_slice(entry);
        self.summed = self.filled;
        Ok(())
    }

    #[inline(always)]
    fn produced(&self) -> u64 {
        self.filled as u64
    }
}

const HEAD_V0: usize = MESSAGE_HEAD_SIZE_V0 + SIZE_FIELD_SIZE;
const HEAD_V1: usize = MESSAGE_HEAD_SIZE_V1 + SIZE_FIELD_SIZE;

#[inline(always)]
fn head_v0(offset: i64, size: u32, key_size: i32) -> [u8; HEAD_V0] {
    let mut head = [0; HEAD_V0];
    head[..8].copy_from_slice(&offset.to_be_bytes());
    head[8..12].copy_from_slice(&size.to_be_bytes());
    head[MAGIC_AT] = V0;
    head[MESSAGE_HEAD_SIZE_V0..].copy_from_slice(&key_size.to_be_bytes());
    head
}

#[inline(always)]
fn head_v1(offset: i64, size: u32, item: &Item<'_>) -> [u8; HEAD_V1] {
    let mut head = [0; HEAD_V1];
    let is_append_time = item.timestamp_type == LOG_APPEND_TIME;
    head[..8].copy_from_slice(&offset.to_be_bytes());
    head[8..12].copy_from_slice(&size.to_be_bytes());
    head[MAGIC_AT] = V1;
    head[MAGIC_AT + 1] = if is_append_time { layout::LOG_APPEND_TIME } else { 0 };
    head[MESSAGE_HEAD_SIZE_V0..MESSAGE_HEAD_SIZE_V1].copy_from_slice(&item.timestamp.to_be_bytes());
    head[MESSAGE_HEAD_SIZE_V1..].copy_from_slice(&item.key.size.to_be_bytes());
    head
}

/// Writes key, size of the value and value into the rest of a message's room.
#[inline(always)]
fn write_content(room: &mut [u8], key: Field<'_>, value: Field<'_>) {
    let (key_room, room) = room.split_at_mut(key.bytes.len());
    if !key.bytes.is_empty() {
        key_room.copy_from_slice(key.bytes); // skips a call for empty keys
    }
    let (size_room, value_room) = room.split_at_mut(SIZE_FIELD_SIZE);
    size_room.copy_from_slice(&value.size.to_be_bytes());
    value_room.copy_from_slice(value.bytes);
}

/// The size of the message that an item becomes.
#[inline(always)]
pub fn message_size<const MAGIC: u8>(item: &Item<'_>) -> usize {
    message_overhead(MAGIC) + item.key.bytes.len() + item.value.bytes.len()
}
