//! zstd frames, by libzstd. They are only read, because older messages cannot have zstd.
//!
//! The library needs no window of its own if the room holds the whole output.

use std::cell::RefCell;

use zstd_safe::DCtx;

use crate::cursor::Cursor;
use crate::layout::V2;

/// Frames with more content are left to records/codecs/zstd.py, which has the same limit.
const WINDOW_SIZE_MAX: usize = 8 * 1024 * 1024;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Flag: there is no window descriptor.
const SINGLE_SEGMENT: u8 = 0x20;
/// Flag: there is a checksum after the last block.
const CHECKSUM: u8 = 0x04;
const DICTIONARY_MASK: u8 = 0x03;
const CONTENT_SIZE_SHIFT: u8 = 6;
/// Added to a content size of two bytes.
const CONTENT_SIZE_BASE: u64 = 256;
const BLOCK_SIZE_MAX: u64 = 128 * 1024;
/// A kind of block: one byte, `size` times.
const REPEATED: u32 = 1;

thread_local! {
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = RefCell::new(DCtx::try_create());
}

pub fn decompress(data: &[u8], magic: u8, room: &mut [u8]) -> Option<usize> {
    if magic < V2 || skip_frame(data) != Some(0) {
        return None; // several frames are rare, and left to the stream
    }
    let end = room.len().min(WINDOW_SIZE_MAX);
    DECOMPRESSOR.with_borrow_mut(|slot| slot.as_mut()?.decompress(&mut room[..end], data).ok())
}

/// Skips a frame (RFC 8878, section 3.1). Returns the number of bytes after it. None if a block is
/// larger than its window allows, which the library checks only in streams.
fn skip_frame(data: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(data);
    let [m0, m1, m2, m3, descriptor] = *cursor.array().ok()?;
    if [m0, m1, m2, m3] != MAGIC {
        return None;
    }
    let is_single_segment = descriptor & SINGLE_SEGMENT != 0;
    let mut window_size = 0;
    if !is_single_segment {
        let [window] = *cursor.array().ok()?;
        let base = 1u64 << (10 + (window >> 3));
        window_size = base / 8 * u64::from(8 + (window & 7));
    }
    cursor.take([0, 1, 2, 4][usize::from(descriptor & DICTIONARY_MASK)]).ok()?;
    let content_size = match (descriptor >> CONTENT_SIZE_SHIFT, is_single_segment) {
        (0, false) => 0,
        (0, true) => u64::from(cursor.array::<1>().ok()?[0]),
        (1, _) => u64::from(u16::from_le_bytes(*cursor.array().ok()?)) + CONTENT_SIZE_BASE,
        (2, _) => u64::from(u32::from_le_bytes(*cursor.array().ok()?)),
        _ => u64::from_le_bytes(*cursor.array().ok()?),
    };
    if is_single_segment {
        window_size = content_size; // the window is the content
    }
    let block_size_max = window_size.min(BLOCK_SIZE_MAX);
    loop {
        let [b0, b1, b2] = *cursor.array().ok()?;
        let bits = u32::from_le_bytes([b0, b1, b2, 0]);
        let (is_last, kind, size) = (bits & 1 != 0, bits >> 1 & 3, bits >> 3);
        let held = if kind == REPEATED { 1 } else { size };
        if u64::from(size.max(held)) > block_size_max {
            return None;
        }
        cursor.take(held as usize).ok()?;
        if is_last {
            break;
        }
    }
    if descriptor & CHECKSUM != 0 {
        cursor.array::<4>().ok()?;
    }
    Some(cursor.left())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_where_the_format_has_them() {
        let mut frame = [0; 100];
        let size = zstd_safe::compress(&mut frame[..], b"value value value", 3).expect("room");
        let mut room = [0; 20];
        assert_eq!(decompress(&frame[..size], V2, &mut room), Some(17));
        assert_eq!(&room[..17], b"value value value");
        assert_eq!(decompress(&frame[..size], 1, &mut room), None);
        assert_eq!(decompress(&frame[..size], V2, &mut room[..16]), None);
        assert_eq!(decompress(&frame[..size - 1], V2, &mut room), None);
    }

    #[test]
    fn content_above_8_mib_is_left_to_the_stream_whatever_the_room() {
        let mut room = vec![0; WINDOW_SIZE_MAX + 1];
        for (size, made) in [(WINDOW_SIZE_MAX, Some(WINDOW_SIZE_MAX)), (WINDOW_SIZE_MAX + 1, None)]
        {
            let mut frame = vec![0; 100_000];
            let data = vec![0; size];
            let frame_size = zstd_safe::compress(&mut frame[..], &data, 1).expect("room");
            assert_eq!(decompress(&frame[..frame_size], V2, &mut room), made);
        }
    }
}
