//! What comes of the items that are kept: messages, their size, or rows.
//!
//! The parser is compiled once for each, so that none pays for the others.

use crate::crc::crc32;
use crate::item::{Field, Item, LOG_APPEND_TIME};
use crate::layout::{
    self, CRC_AT_LEGACY, MAGIC_AT, MESSAGE_HEAD_SIZE_V0, MESSAGE_HEAD_SIZE_V1, PREFIX_SIZE,
    ROW_FIELDS, ROW_SIZE, SIZE_FIELD_SIZE, V0, V1, message_overhead,
};
use crate::message::prefix;
use crate::transcoder::Stop;

pub trait Sink {
    /// Whether older messages are made: then what is old enough passes, and messages must be possible.
    const CONVERTS: bool;
    /// Of the messages made.
    const MAGIC: u8;

    /// Takes an item and gives the bytes that it made, or stops where there is no room. The offset to be written may be
    /// a relative one.
    fn put(&mut self, item: &Item<'_>, offset: i64) -> Result<usize, Stop>;

    /// Takes an entry as it is.
    fn copy(&mut self, entry: &[u8]) -> Result<(), Stop>;

    /// All that it has made.
    fn produced(&self) -> u64;
}

/// Writes messages; their CRCs come last, since a CRC waits for the stores that it is to read (`finish`).
pub struct Messages<'a, const MAGIC: u8> {
    target: &'a mut [u8],
    filled: usize,
    summed: usize,
}

impl<'a, const MAGIC: u8> Messages<'a, MAGIC> {
    pub fn new(target: &'a mut [u8]) -> Self {
        Self { target, filled: 0, summed: 0 }
    }

    /// Stores the CRCs of the messages written since the last time.
    pub fn finish(&mut self) {
        let mut rest = &mut self.target[self.summed..self.filled];
        while let Some(head) = rest.first_chunk::<PREFIX_SIZE>() {
            let size = prefix(head).1 as usize;
            let (message, behind) = rest.split_at_mut(PREFIX_SIZE + size);
            let crc = crc32(0, &message[MAGIC_AT..]);
            message[CRC_AT_LEGACY..MAGIC_AT].copy_from_slice(&crc.to_be_bytes());
            rest = behind;
        }
        self.summed = self.filled;
    }

    #[inline(always)]
    fn room(&mut self, size: usize) -> Result<&mut [u8], Stop> {
        let room = self.target[self.filled..].get_mut(..size).ok_or(Stop::Target)?;
        self.filled += size;
        Ok(room)
    }
}

impl<const MAGIC: u8> Sink for Messages<'_, MAGIC> {
    const CONVERTS: bool = true;
    const MAGIC: u8 = MAGIC;

    #[inline(always)]
    fn put(&mut self, item: &Item<'_>, offset: i64) -> Result<usize, Stop> {
        let size = message_size::<MAGIC>(item);
        let message = self.room(size)?;
        let size_field = (size - PREFIX_SIZE) as u32;
        if MAGIC == V0 {
            if let Some((head, body)) = message.split_first_chunk_mut() {
                *head = head_v0(offset, size_field, item.key.size);
                write_content(body, item.key, item.value);
            }
        } else if let Some((head, body)) = message.split_first_chunk_mut() {
            *head = head_v1(offset, size_field, item);
            write_content(body, item.key, item.value);
        }
        Ok(size)
    }

    fn copy(&mut self, entry: &[u8]) -> Result<(), Stop> {
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

#[inline(always)]
fn message_size<const MAGIC: u8>(item: &Item<'_>) -> usize {
    message_overhead(MAGIC) + item.key.bytes.len() + item.value.bytes.len()
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

/// Key, size of the value, value: what is left of a message's room.
#[inline(always)]
fn write_content(room: &mut [u8], key: Field<'_>, value: Field<'_>) {
    let (key_room, room) = room.split_at_mut(key.bytes.len());
    if !key.bytes.is_empty() {
        key_room.copy_from_slice(key.bytes); // a call, which many records without a key can do without
    }
    let (size_room, value_room) = room.split_at_mut(SIZE_FIELD_SIZE);
    size_room.copy_from_slice(&value.size.to_be_bytes());
    value_room.copy_from_slice(value.bytes);
}

/// Adds up what `Messages` would write, into a target of `room` bytes.
pub struct Size<const MAGIC: u8> {
    room: u64,
    left: u64,
}

impl<const MAGIC: u8> Size<MAGIC> {
    pub fn new(room: u64) -> Self {
        Self { room, left: room }
    }

    #[inline(always)]
    fn add(&mut self, size: usize) -> Result<usize, Stop> {
        self.left = self.left.checked_sub(size as u64).ok_or(Stop::Target)?;
        Ok(size)
    }
}

impl<const MAGIC: u8> Sink for Size<MAGIC> {
    const CONVERTS: bool = true;
    const MAGIC: u8 = MAGIC;

    #[inline(always)]
    fn put(&mut self, item: &Item<'_>, _: i64) -> Result<usize, Stop> {
        self.add(message_size::<MAGIC>(item))
    }

    fn copy(&mut self, entry: &[u8]) -> Result<(), Stop> {
        self.add(entry.len()).map(drop)
    }

    fn produced(&self) -> u64 {
        self.room - self.left
    }
}

/// Writes a row for each item.
pub struct Rows<'a> {
    /// The address of the buffer that positions index.
    source: usize,
    target: &'a mut [u8],
    filled: usize,
}

impl<'a> Rows<'a> {
    pub fn new(source: &[u8], target: &'a mut [u8]) -> Self {
        let source = source.as_ptr().addr();
        Self { source, target, filled: 0 }
    }

    /// The index of a part of the source in it.
    #[inline(always)]
    fn index_of(&self, part: &[u8]) -> i64 {
        part.as_ptr().addr().wrapping_sub(self.source) as i64
    }
}

impl Sink for Rows<'_> {
    const CONVERTS: bool = false;
    const MAGIC: u8 = V1; // none

    #[inline(always)]
    fn put(&mut self, item: &Item<'_>, _: i64) -> Result<usize, Stop> {
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
        let room = self.target[self.filled..].first_chunk_mut::<ROW_SIZE>().ok_or(Stop::Target)?;
        for (room, field) in room.chunks_exact_mut(8).zip(row) {
            room.copy_from_slice(&field.to_ne_bytes());
        }
        self.filled += ROW_SIZE;
        Ok(ROW_SIZE)
    }

    /// Nothing passes: it is no conversion.
    fn copy(&mut self, _: &[u8]) -> Result<(), Stop> {
        Err(Stop::Batch)
    }

    fn produced(&self) -> u64 {
        self.filled as u64
    }
}
