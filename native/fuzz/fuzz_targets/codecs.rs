//! Any bytes as data of each codec: no panic, and no more than there is room for. And what is
//! compressed comes back.
//!
//! `cargo +nightly fuzz run codecs` in native/.

#![no_main]

use libfuzzer_sys::fuzz_target;
use records_kernel::{Codec, CompressionLevel, compress, decompress};

const V1: u8 = 1;
const V2: u8 = 2;

fuzz_target!(|input: (u16, &[u8])| {
    let (room, data) = input;
    let mut room = vec![0; usize::from(room)];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        for magic in [V1, V2] {
            if let Some(size) = decompress(codec, magic, data, &mut room) {
                assert!(size <= room.len());
            }
        }
    }
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let mut compressed = vec![];
        compress(codec, CompressionLevel::Fast, V1, data, &mut compressed)
            .expect("there is memory");
        let mut content = vec![0; data.len()];
        assert_eq!(decompress(codec, V1, &compressed, &mut content), Some(data.len()));
        assert_eq!(content, data);
    }
});
