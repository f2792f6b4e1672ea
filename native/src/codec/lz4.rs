//! lz4 in Kafka's frames, by the rules of records/codecs/lz4.py. liblz4 makes and reads the blocks.
//!
//! liblz4 is called without a kept state. Its output then depends on the input alone: a kept state
//! would find other matches after other data.

use std::ffi::c_int;

use xxhash_rust::xxh32::xxh32;

use super::{CompressionLevel, append};
use crate::cursor::Cursor;
use crate::layout::V0;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Flag in a block's size: the block is not compressed.
const STORED: u32 = 0x8000_0000;
const END_MARK: u32 = 0;
/// Bytes of a block's size field, and of a checksum.
const WORD: usize = 4;

const VERSION: u8 = 0x40;
const VERSION_MASK: u8 = 0xc0;
const INDEPENDENT: u8 = 0x20;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const RESERVED_FLAGS: u8 = 0x03;

/// Kafka's frames: independent blocks of 64 KiB, no sizes, no checksums.
const DESCRIPTOR: [u8; 2] = [VERSION | INDEPENDENT, 0x40];
const BLOCK_SIZE: usize = 64 * 1024;
const HEADER_SIZE: usize = MAGIC.len() + DESCRIPTOR.len() + 1;
/// Needs two thirds of the time of 1, for up to 3 % more bytes (JSON, and values that are half
/// random).
const FAST_ACCELERATION: c_int = 3;
const KAFKA_ACCELERATION: c_int = 1;

/// The maximum decompressed size of a block, by the frame header's second byte.
fn block_size(descriptor: u8) -> Option<usize> {
    match descriptor {
        0x40 => Some(64 * 1024),
        0x50 => Some(256 * 1024),
        0x60 => Some(1024 * 1024),
        0x70 => Some(4 * 1024 * 1024),
        _ => None,
    }
}

/// The frame header's last byte. v0: Kafka's wrong one, over the magic number too (KAFKA-3160).
fn header_checksum(magic: u8, header: &[u8]) -> u8 {
    let hashed = if magic == V0 { header } else { &header[MAGIC.len()..] };
    (xxh32(hashed, 0) >> 8) as u8
}

pub fn decompress(data: &[u8], magic: u8, room: &mut [u8]) -> Option<usize> {
    let mut cursor = Cursor::new(data);
    let [m0, m1, m2, m3, flags, sizes] = *cursor.array().ok()?;
    let reserved = flags & RESERVED_FLAGS;
    let is_kafkas = flags & VERSION_MASK == VERSION && flags & INDEPENDENT != 0 && reserved == 0;
    if [m0, m1, m2, m3] != MAGIC || !is_kafkas {
        return None;
    }
    let size_max = block_size(sizes)?;
    if flags & CONTENT_SIZE != 0 {
        cursor.array::<8>().ok()?; // skipped, as Kafka skips it
    }
    let header = &data[..data.len() - cursor.left()];
    let [checksum] = *cursor.array().ok()?;
    if magic != V0 && checksum != header_checksum(magic, header) {
        return None; // v0 accepts the right and the wrong one
    }
    let made = blocks(&mut cursor, size_max, flags & BLOCK_CHECKSUM != 0, room)?;
    if flags & CONTENT_CHECKSUM != 0 {
        cursor.array::<WORD>().ok()?; // read, and not compared
    }
    Some(made)
}

fn blocks(
    cursor: &mut Cursor<'_>,
    size_max: usize,
    has_checksums: bool,
    room: &mut [u8],
) -> Option<usize> {
    let mut made = 0;
    loop {
        let word = u32::from_le_bytes(*cursor.array().ok()?);
        let size = (word & !STORED) as usize;
        if size as u32 == END_MARK {
            return Some(made);
        }
        if size > size_max {
            return None;
        }
        let block = cursor.take(size).ok()?;
        if has_checksums && u32::from_le_bytes(*cursor.array().ok()?) != xxh32(block, 0) {
            return None;
        }
        let left = &mut room[made..];
        if word & STORED != 0 {
            left.get_mut(..size)?.copy_from_slice(block);
            made += size;
        } else {
            let end = left.len().min(size_max);
            made += decompress_block(block, &mut left[..end])?;
        }
    }
}

pub fn compress(
    data: &[u8],
    level: CompressionLevel,
    magic: u8,
    target: &mut Vec<u8>,
) -> Option<()> {
    let acceleration = match level {
        CompressionLevel::Fast => FAST_ACCELERATION,
        CompressionLevel::Kafka => KAFKA_ACCELERATION,
    };
    let header = [MAGIC.as_slice(), &DESCRIPTOR].concat();
    target.try_reserve(HEADER_SIZE).ok()?;
    target.extend_from_slice(&header);
    target.push(header_checksum(magic, &header));
    for block in data.chunks(BLOCK_SIZE) {
        append(target, WORD + bound(block.len()), |room| {
            let (word, room) = room.split_at_mut(WORD);
            let (mut size, mut flag) = (compress_block(block, room, acceleration)?, 0);
            if size >= block.len() {
                (size, flag) = (block.len(), STORED);
                room[..size].copy_from_slice(block);
            }
            word.copy_from_slice(&(flag | size as u32).to_le_bytes());
            Some(WORD + size)
        })?;
    }
    target.try_reserve(WORD).ok()?;
    target.extend_from_slice(&END_MARK.to_le_bytes());
    Some(())
}

/// The maximum compressed size of a block of `size` bytes. liblz4 is slower with less room.
fn bound(size: usize) -> usize {
    size + size / 255 + 16
}

/// The bytes made. None if the block is damaged, or the room is too small.
#[allow(unsafe_code)]
fn decompress_block(block: &[u8], room: &mut [u8]) -> Option<usize> {
    let (size, room_size) = (c_int::try_from(block.len()).ok()?, c_int::try_from(room.len()).ok()?);
    // SAFETY: liblz4 reads `size` bytes and writes at most `room_size`, whatever the block holds;
    // the slices are alive and cannot overlap, since one is borrowed mutably.
    let made = unsafe {
        lz4_sys::LZ4_decompress_safe(
            block.as_ptr().cast(),
            room.as_mut_ptr().cast(),
            size,
            room_size,
        )
    };
    usize::try_from(made).ok()
}

/// The bytes made. None if the room is too small.
#[allow(unsafe_code)]
fn compress_block(data: &[u8], room: &mut [u8], acceleration: c_int) -> Option<usize> {
    let (size, room_size) = (c_int::try_from(data.len()).ok()?, c_int::try_from(room.len()).ok()?);
    // SAFETY: as in `decompress_block`.
    let made = unsafe {
        lz4_sys::LZ4_compress_fast(
            data.as_ptr().cast(),
            room.as_mut_ptr().cast(),
            size,
            room_size,
            acceleration,
        )
    };
    usize::try_from(made).ok().filter(|made| *made > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: u8 = 1;

    #[test]
    fn frames_begin_as_kafkas_do() {
        for (magic, checksum) in [(V0, 0x1a), (V1, 0x82)] {
            let mut frame = vec![];
            compress(b"", CompressionLevel::Fast, magic, &mut frame).expect("there is memory");
            assert_eq!(frame, [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, checksum, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn the_wrong_header_checksum_is_read_in_v0_alone() {
        let mut frame = vec![];
        compress(b"value", CompressionLevel::Kafka, V0, &mut frame).expect("there is memory");
        let mut room = [0; 9];
        assert_eq!(decompress(&frame, V0, &mut room), Some(5));
        assert_eq!(decompress(&frame, V1, &mut room), None);
    }

    #[test]
    fn a_block_may_be_as_large_as_its_frame_allows() {
        let data = vec![7; BLOCK_SIZE];
        let mut frame = vec![];
        compress(b"", CompressionLevel::Kafka, V1, &mut frame).expect("there is memory");
        let end = frame.split_off(HEADER_SIZE);
        let word = STORED | BLOCK_SIZE as u32;
        let stored = [frame.as_slice(), &word.to_le_bytes(), &data, &end].concat();
        let mut room = vec![0; BLOCK_SIZE];
        assert_eq!(decompress(&stored, V1, &mut room), Some(BLOCK_SIZE));
        assert_eq!(room, data);
        let word = STORED | (BLOCK_SIZE as u32 + 1);
        let larger = [frame.as_slice(), &word.to_le_bytes(), &data, &[7], &end].concat();
        assert_eq!(decompress(&larger, V1, &mut [0; 2 * BLOCK_SIZE]), None);
    }

    #[test]
    fn a_block_that_does_not_shrink_is_stored() {
        let noise: Vec<u8> =
            (1..61u32).map(|n| ((n * n).wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        for (repeated, gain) in [(6, 0), (7, 1)] {
            let data = [&noise[..40], &noise[..repeated], &noise[40..]].concat();
            for level in [CompressionLevel::Fast, CompressionLevel::Kafka] {
                let mut frame = vec![];
                compress(&data, level, V1, &mut frame).expect("there is memory");
                let stored = if gain == 0 { STORED } else { 0 };
                let word = stored | (data.len() - gain) as u32;
                assert_eq!(frame[HEADER_SIZE..][..WORD], word.to_le_bytes(), "{repeated}");
            }
        }
    }

    #[test]
    fn blocks_that_depend_on_each_other_are_left_to_the_stream() {
        let mut frame = vec![];
        compress(b"value", CompressionLevel::Kafka, V0, &mut frame).expect("there is memory");
        frame[4] &= !INDEPENDENT;
        assert_eq!(decompress(&frame, V0, &mut [0; 9]), None);
    }
}
