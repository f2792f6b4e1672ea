//! snappy with Java's framing (xerial), or as one raw block, by the rules of
//! records/codecs/snappy.py.

use std::cell::RefCell;

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::append;
use crate::cursor::Cursor;
use crate::layout::SIZE_FIELD_SIZE;

const MAGIC: &[u8; 8] = b"\x82SNAPPY\x00";
/// Magic, version, oldest version that can read it.
const HEADER_SIZE: usize = 16;
const VERSION: i32 = 1;
/// The block size of snappy-java.
const BLOCK_SIZE: usize = 32 * 1024;

thread_local! {
    /// The encoder has tables of 34 KiB.
    static ENCODER: RefCell<Encoder> = RefCell::new(Encoder::new());
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
    Some(made) // one to three bytes in place of a size end the data
}

fn block(data: &[u8], room: &mut [u8]) -> Option<usize> {
    let size = decompress_len(data).ok()?;
    let room = room.get_mut(..size)?;
    Decoder::new().decompress(data, room).ok() // an error for empty data
}

pub fn compress(data: &[u8], target: &mut Vec<u8>) -> Option<()> {
    target.try_reserve(HEADER_SIZE).ok()?;
    target.extend_from_slice(MAGIC);
    target.extend_from_slice(&VERSION.to_be_bytes());
    target.extend_from_slice(&VERSION.to_be_bytes());
    ENCODER.with_borrow_mut(|encoder| {
        for block in data.chunks(BLOCK_SIZE) {
            append(target, SIZE_FIELD_SIZE + max_compress_len(block.len()), |room| {
                let (size_field, room) = room.split_first_chunk_mut()?;
                let size = encoder.compress(block, room).ok()?;
                *size_field = (size as i32).to_be_bytes();
                Some(SIZE_FIELD_SIZE + size)
            })?;
        }
        Some(())
    })
}

#[cfg(test)]
mod tests {
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
    fn a_header_without_a_block_is_no_content() {
        let mut data = vec![];
        compress(b"", &mut data).expect("there is memory");
        assert_eq!(data.len(), HEADER_SIZE);
        assert_eq!(decompress(&data, &mut []), Some(0));
    }

    #[test]
    fn a_claim_above_the_room_is_not_believed() {
        assert_eq!(decompress(b"\xff\xff\xff\xff\x0f\x00", &mut [0; 9]), None);
    }
}
