//! snappy as Java frames it (xerial), or one raw block, as records/codecs/snappy.py reads it.

use std::cell::RefCell;

use snap::raw::{Decoder, decompress_len};

use super::snappy_block;
use crate::cursor::Cursor;
use crate::layout::SIZE_FIELD_SIZE;

const MAGIC: &[u8; 8] = b"\x82SNAPPY\x00";
/// Magic, version, oldest version that can read it.
const HEADER_SIZE: usize = 16;
const VERSION: i32 = 1;
/// As snappy-java cuts them.
const BLOCK_SIZE: usize = 32 * 1024;

thread_local! {
    /// A block before it is snappy's.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::default();
}

pub fn decompress(data: &[u8], room: &mut [u8]) -> Option<usize> {
    if data.len() < HEADER_SIZE || !data.starts_with(MAGIC) {
        return block(data, room);
    }
    let mut cursor = Cursor::new(&data[HEADER_SIZE..]);
    let mut made = 0;
    while let Ok(size) = cursor.array() {
        let size = usize::try_from(i32::from_be_bytes(*size)).ok()?; // negative: another header
        made += block(cursor.take(size).ok()?, &mut room[made..])?;
    }
    Some(made) // one to three bytes in the place of a size end the data
}

fn block(data: &[u8], room: &mut [u8]) -> Option<usize> {
    if data.is_empty() {
        return None;
    }
    let size = decompress_len(data).ok()?;
    let room = room.get_mut(..size)?;
    Decoder::new().decompress(data, room).ok().filter(|made| *made == size)
}

pub fn compress(data: &[u8], target: &mut Vec<u8>) -> Option<()> {
    target.try_reserve(HEADER_SIZE).ok()?;
    target.extend_from_slice(MAGIC);
    target.extend_from_slice(&VERSION.to_be_bytes());
    target.extend_from_slice(&VERSION.to_be_bytes());
    SCRATCH.with_borrow_mut(|scratch| {
        for block in data.chunks(BLOCK_SIZE) {
            let at = target.len();
            target.try_reserve(SIZE_FIELD_SIZE).ok()?;
            target.extend_from_slice(&[0; SIZE_FIELD_SIZE]);
            snappy_block::compress(block, scratch, target)?;
            let size = target.len() - at - SIZE_FIELD_SIZE;
            target[at..at + SIZE_FIELD_SIZE].copy_from_slice(&(size as i32).to_be_bytes());
        }
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use snap::raw::Encoder;

    use super::*;

    #[test]
    fn a_raw_block_is_read_and_nothing_is_not() {
        let block = Encoder::new().compress_vec(b"value value value").expect("it compresses");
        let mut room = [0; 20];
        assert_eq!(decompress(&block, &mut room), Some(17));
        assert_eq!(&room[..17], b"value value value");
        assert_eq!(decompress(b"", &mut room), None);
    }

    #[test]
    fn a_claim_above_the_room_is_not_believed() {
        assert_eq!(decompress(b"\xff\xff\xff\xff\x0f\x00", &mut [0; 9]), None);
    }
}
