//! The fast path for ordinary v2 records: undamaged, whole in the window, with short varints.
//!
//! Nearly all records are ordinary, and most of the cost of reading one is decoding varints byte by
//! byte. Here one 64-bit word holds all varints before the key, and their sizes are checked once.
//! Other records are left to `record`, which reads any record with the same result, only slower.

use crate::item::Field;
use crate::record::{Record, check_headers};

/// Longer varints are not ordinary. This allows sizes and offset deltas up to a million, and
/// timestamp deltas up to a quarter of an hour.
const VARINT_SIZE_MAX: usize = 3;
const WORD_SIZE: usize = size_of::<u64>();
/// Size, attributes, and a word.
const START_SIZE: usize = VARINT_SIZE_MAX + 1 + WORD_SIZE;

/// The first record of `bytes`, and the bytes after it. None if the record is not ordinary. It may
/// be good or damaged.
#[inline(always)]
pub fn read(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let start = bytes.first_chunk::<START_SIZE>()?;
    let mut word = Word::at(start, 0);
    let size = word.varint()?;
    if is_negative(size) {
        return None;
    }
    let body_at = word.used;
    let mut word = Word::at(start, body_at + 1);
    let timestamp_delta = i64::from(unzigzag(word.varint()?));
    let offset_delta = unzigzag(word.varint()?);
    let key_size = word.varint()?;
    if word.used > WORD_SIZE {
        return None;
    }
    let (body, after) = bytes[body_at..].split_at_checked(size as usize >> 1)?;
    let (key, rest) = field(key_size, body.get(1 + word.used..)?)?;
    let (value_size, rest) = varint(rest)?;
    let (value, rest) = field(value_size, rest)?;
    let (headers_count, headers) = varint(rest)?;
    let headers_count = unzigzag(headers_count);
    if headers_count != 0 {
        check_headers(headers, headers_count).ok()?;
    } else if !headers.is_empty() {
        return None;
    }
    Some((Record { timestamp_delta, offset_delta, key, value, headers, headers_count }, after))
}

/// Reads zigzag-encoded varints from a word. If `used` is more than the word's size, the last
/// varint was cut off.
struct Word {
    bits: u64,
    used: usize,
}

impl Word {
    #[inline(always)]
    fn at(start: &[u8; START_SIZE], at: usize) -> Self {
        let mut word = [0; WORD_SIZE];
        word.copy_from_slice(&start[at..at + WORD_SIZE]);
        Self { bits: u64::from_le_bytes(word), used: 0 }
    }

    #[inline(always)]
    fn varint(&mut self) -> Option<u32> {
        let bits = self.bits;
        let (raw, size) = if bits & 0x80 == 0 {
            (bits & 0x7f, 1)
        } else if bits & 0x8000 == 0 {
            (bits & 0x7f | bits >> 1 & 0x3f80, 2)
        } else if bits & 0x80_0000 == 0 {
            (bits & 0x7f | bits >> 1 & 0x3f80 | bits >> 2 & 0x1f_c000, 3)
        } else {
            return None;
        };
        self.bits >>= 8 * size;
        self.used += size;
        Some(raw as u32)
    }
}

#[inline(always)]
fn varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes {
        [a, rest @ ..] if *a < 0x80 => Some((u32::from(*a), rest)),
        [a, b, rest @ ..] if *b < 0x80 => Some((u32::from(a & 0x7f) | u32::from(*b) << 7, rest)),
        [a, b, c, rest @ ..] if *c < 0x80 => {
            let low = u32::from(a & 0x7f) | u32::from(b & 0x7f) << 7;
            Some((low | u32::from(*c) << 14, rest))
        }
        _ => None,
    }
}

#[inline(always)]
fn is_negative(raw: u32) -> bool {
    raw & 1 != 0
}

#[inline(always)]
fn unzigzag(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

/// A key or value, by its zigzag-encoded size. Negative sizes are null.
#[inline(always)]
fn field(raw_size: u32, bytes: &[u8]) -> Option<(Field<'_>, &[u8])> {
    let null = -((raw_size & 1) as i32);
    let size = (raw_size >> 1) as i32 & !null;
    let (bytes, rest) = bytes.split_at_checked(size as usize)?;
    Some((Field { size: size | null, bytes }, rest))
}
