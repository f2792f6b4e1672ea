//! Compression and decompression of data that is whole in memory.
//!
//! The libraries' contexts belong to the thread and are reused. The caller decides how much room
//! there is. No size claimed by the data determines an allocation.
//!
//! The results equal those of the streams of records/codecs. Data that is damaged, too large for
//! the room or framed in an unusual way gives None. The caller then reads it as a stream, which
//! reports the error.

pub mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::sync::OnceLock;

use gzip::CompressionLvl;

/// A codec by its number in the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Codec {
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Codec {
    /// The codec of that number. None if there is no such codec, or if it means no compression.
    pub fn of(number: u8) -> Option<Self> {
        [Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd]
            .into_iter()
            .find(|codec| *codec as u8 == number)
    }
}

/// The effort of compressing: `compression_level` of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionLevel {
    /// Fast, for up to a tenth more bytes.
    Fast,
    /// Reaches about the size of Kafka's own settings.
    Kafka,
}

/// Appends compressed data to the target, like `compress`.
pub type Compress = fn(&[u8], &mut Vec<u8>) -> Option<()>;

/// A compressor for gzip at the level `Fast`, in place of the kernel's own.
pub static FAST_GZIP: OnceLock<Compress> = OnceLock::new();

/// Decompresses `data`, of message format `magic`, into the beginning of `room`. Returns the bytes
/// made.
pub fn decompress(codec: Codec, magic: u8, data: &[u8], room: &mut [u8]) -> Option<usize> {
    match codec {
        Codec::Gzip => gzip::decompress(data, room),
        Codec::Snappy => snappy::decompress(data, room),
        Codec::Lz4 => lz4::decompress(data, magic, room),
        Codec::Zstd => zstd::decompress(data, magic, room),
    }
}

/// Compresses `data` for message format `magic` and appends the result, which is always the same
/// for the same data. None if this codec cannot be compressed here, or there is not enough memory.
/// The appended bytes are then undefined.
pub fn compress(
    codec: Codec,
    level: CompressionLevel,
    magic: u8,
    data: &[u8],
    target: &mut Vec<u8>,
) -> Option<()> {
    match codec {
        Codec::Gzip => match (level, FAST_GZIP.get()) {
            (CompressionLevel::Fast, Some(compress)) => compress(data, target),
            (CompressionLevel::Fast, None) => {
                gzip::compress(data, CompressionLvl::fastest(), target)
            }
            // 6, as Java's: about as small as zlib's 6
            (CompressionLevel::Kafka, _) => gzip::compress(data, CompressionLvl::default(), target),
        },
        Codec::Snappy => snappy::compress(data, target),
        Codec::Lz4 => lz4::compress(data, level, magic, target),
        Codec::Zstd => None, // older messages have no zstd
    }
}

/// Appends what `write` makes: at most `size_max` bytes. None if there is not enough memory, or if
/// it fails.
fn append(
    target: &mut Vec<u8>,
    size_max: usize,
    write: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<()> {
    let filled = target.len();
    target.try_reserve(size_max).ok()?;
    target.resize(filled + size_max, 0);
    let made = write(&mut target[filled..])?;
    target.truncate(filled + made);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V0: u8 = 0;
    const V1: u8 = 1;

    fn contents() -> [Vec<u8>; 5] {
        let mixed = (0..200_000u32).flat_map(|i| (i / 3).wrapping_mul(2_654_435_761).to_le_bytes());
        [
            vec![],
            b"a".to_vec(),
            vec![7; 64 * 1024],
            b"key and value ".repeat(20_000),
            mixed.take(300_000).collect(),
        ]
    }

    #[test]
    fn what_is_compressed_comes_back_and_does_not_fit_into_less() {
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            for (level, magic) in [(CompressionLevel::Fast, V0), (CompressionLevel::Kafka, V1)] {
                for content in contents() {
                    let mut data = b"before".to_vec();
                    compress(codec, level, magic, &content, &mut data).expect("there is memory");
                    let data = &data[6..];
                    let mut room = vec![0xaa; content.len() + 10];
                    assert_eq!(decompress(codec, magic, data, &mut room), Some(content.len()));
                    assert_eq!(room[..content.len()], content);
                    if let Some(less) = content.len().checked_sub(1) {
                        assert_eq!(decompress(codec, magic, data, &mut room[..less]), None);
                    }
                }
            }
        }
    }

    #[test]
    fn data_that_ends_early_is_left_to_the_stream() {
        for codec in [Codec::Gzip, Codec::Lz4] {
            let mut data = vec![];
            compress(codec, CompressionLevel::Fast, V1, &b"value ".repeat(1000), &mut data)
                .expect("memory");
            let mut room = vec![0; 10_000];
            for end in 0..data.len() {
                assert_eq!(decompress(codec, V1, &data[..end], &mut room), None);
            }
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_attributes() {
        let codecs = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        assert_eq!([1, 2, 3, 4].map(Codec::of), codecs.map(Some));
        assert_eq!([0, 5, 7].map(Codec::of), [None; 3]);
    }
}
