//! A block of snappy, made of the matches that liblz4 finds.
//!
//! Both formats say the same: literals, and copies of what came up to 64 KiB before. liblz4 finds
//! the copies in half the time that an encoder of snappy takes: from where it finds one it also looks
//! backwards, and so need not look everywhere. What it makes, written the other way, was 6 % smaller
//! than snappy's own for values that are half random, and 1 % larger for JSON.
//!
//! Source: snappy's format_description.txt, lz4's lz4_Block_format.md.

use super::{lz4, room_after};
use crate::cursor::Cursor;

/// Of a literal: so many bytes at most have their number in the tag.
const LITERAL_SHORT: usize = 60;
/// Of a copy.
const COPY_MAX: usize = 64;
/// A copy of up to so many bytes, from not too far, has a shorter tag.
const COPY_SHORT: usize = 11;
const COPY_NEAR: usize = 2047;
/// lz4's matches are so many bytes more than it says.
const MATCH_MIN: usize = 4;

/// Of what is copied at once: more than most literals have.
const WORD: usize = 16;

/// Appends the block of up to 64 KiB. None: there is no memory. `scratch`: a buffer.
pub fn compress(data: &[u8], scratch: &mut Vec<u8>, target: &mut Vec<u8>) -> Option<()> {
    let block = lz4::fast_block(data, scratch)?;
    let start = target.len();
    let mut made = Made { room: room_after(target, size_max(data.len()))?, size: 0 };
    made.varint(data.len())?;
    made.sequences(block)?;
    let end = start + made.size;
    target.truncate(end);
    Some(())
}

/// As much as such a block may be, and a word more: a literal of 60 bytes has one byte more, and a
/// copy of four bytes has three.
fn size_max(size: usize) -> usize {
    2 * WORD + size + size / LITERAL_SHORT
}

/// What has been written.
struct Made<'a> {
    room: &'a mut [u8],
    size: usize,
}

impl Made<'_> {
    fn sequences(&mut self, block: &[u8]) -> Option<()> {
        let mut block = Cursor::new(block);
        loop {
            let [token] = *block.array().ok()?;
            let size = length(&mut block, token >> 4)?;
            if size > 0 {
                self.literal(&mut block, size)?;
            }
            if block.left() == 0 {
                return Some(());
            }
            let offset = u16::from_le_bytes(*block.array().ok()?);
            self.copies(offset, MATCH_MIN + length(&mut block, token & 0xf)?)?;
        }
    }

    #[inline(always)]
    fn literal(&mut self, block: &mut Cursor<'_>, size: usize) -> Option<()> {
        let last = size - 1;
        if last < LITERAL_SHORT {
            self.put(&[(last << 2) as u8])?;
        } else if last <= usize::from(u8::MAX) {
            self.put(&[(LITERAL_SHORT << 2) as u8, last as u8])?;
        } else {
            let [low, high] = u16::try_from(last).ok()?.to_le_bytes();
            self.put(&[((LITERAL_SHORT + 1) << 2) as u8, low, high])?;
        }
        match block.rest().first_chunk::<WORD>() {
            Some(word) if size <= WORD => {
                *self.room.get_mut(self.size..)?.first_chunk_mut()? = *word; // and what is after it
                block.take(size).ok()?;
                self.size += size;
                Some(())
            }
            _ => self.put(block.take(size).ok()?),
        }
    }

    #[inline(always)]
    fn copies(&mut self, offset: u16, mut size: usize) -> Option<()> {
        let [low, high] = offset.to_le_bytes();
        while size > COPY_MAX {
            // What is left is not less than a short copy may be.
            let copied = if size < COPY_MAX + MATCH_MIN { COPY_MAX - MATCH_MIN } else { COPY_MAX };
            self.put(&[((copied - 1) << 2) as u8 | 2, low, high])?;
            size -= copied;
        }
        if size <= COPY_SHORT && usize::from(offset) <= COPY_NEAR {
            self.put(&[high << 5 | ((size - MATCH_MIN) << 2) as u8 | 1, low])
        } else {
            self.put(&[((size - 1) << 2) as u8 | 2, low, high])
        }
    }

    fn varint(&mut self, mut number: usize) -> Option<()> {
        while number >= 0x80 {
            self.put(&[number as u8 | 0x80])?;
            number >>= 7;
        }
        self.put(&[number as u8])
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.room.get_mut(self.size..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        self.size += bytes.len();
        Some(())
    }
}

/// A number that the token has begun.
#[inline(always)]
fn length(block: &mut Cursor<'_>, begun: u8) -> Option<usize> {
    let mut length = usize::from(begun);
    if begun == 0xf {
        loop {
            let [more] = *block.array().ok()?;
            length += usize::from(more);
            if more != u8::MAX {
                break;
            }
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use snap::raw::{Decoder, max_compress_len};

    fn there_and_back(data: &[u8]) -> usize {
        let (mut scratch, mut block) = (vec![], b"before".to_vec());
        compress(data, &mut scratch, &mut block).expect("there is memory");
        let made = Decoder::new().decompress_vec(&block[6..]).expect("it is a block");
        assert_eq!(made, data);
        block.len() - 6
    }

    /// Numbers that have no pattern.
    fn noise(size: usize) -> Vec<u8> {
        let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let states = std::iter::successors(Some(1), next);
        states.map(|state| (state >> 24) as u8).take(size).collect()
    }

    #[test]
    fn literals_of_all_sizes_come_back() {
        let data = noise(65_536);
        for size in (0..300).chain([60, 61, 255, 256, 257, 4_095, 32_768, 65_535, 65_536]) {
            let made = there_and_back(&data[..size]);
            assert!(made <= max_compress_len(size));
        }
    }

    #[test]
    fn copies_of_all_sizes_come_back_from_near_and_far() {
        let noise = noise(40_000);
        for between in [0, 1, 100, 2_000, 2_047, 2_048, 30_000] {
            for size in (4..140).chain([191, 192, 193, 1_000, 5_000]) {
                let data = [
                    &noise[..size],
                    &noise[5_000..5_000 + between],
                    &noise[..size],
                    b"the end is plain",
                ];
                there_and_back(&data.concat());
            }
        }
        there_and_back(&[7; 65_536]);
        there_and_back(&b"abcdefg".repeat(9_000));
    }

    #[test]
    fn many_short_copies_fit_into_what_is_reserved() {
        for size in [4, 5, 6, 11, 12] {
            let noise = noise(64 * size);
            let data: Vec<u8> = (0..2_000_usize)
                .flat_map(|n| {
                    let at = n * 37 % 63 * size;
                    [&noise[at..at + size], &[n as u8]].concat()
                })
                .collect();
            assert!(there_and_back(&data) <= size_max(data.len()));
        }
    }
}
