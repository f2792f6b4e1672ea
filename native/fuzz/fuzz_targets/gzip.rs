//! Any bytes as a gzip member: no panic, and no more than is claimed and possible. And what is
//! compressed comes back.
//!
//! `cargo +nightly fuzz run gzip` in native/.

#![no_main]

use libfuzzer_sys::fuzz_target;
use records_kernel::gzip::{CompressionLvl, claimed_size, compress, decompress};

fuzz_target!(|input: (u32, &[u8])| {
    let (limit, data) = input;
    if let Some(size) = claimed_size(data, u64::from(limit)) {
        assert!(size <= 1032 * data.len());
        decompress(data, &mut vec![0; size]);
    }
    let member = compress(data, CompressionLvl::fastest()).expect("there is memory");
    assert_eq!(claimed_size(&member, data.len() as u64), Some(data.len()));
    let mut content = vec![0; data.len()];
    assert!(decompress(&member, &mut content));
    assert_eq!(content, data);
});
