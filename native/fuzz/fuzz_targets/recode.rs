//! Any bytes as a compressed entry, and as what is compressed in one: no panic, and either nothing
//! has happened or messages come out.
//!
//! `cargo +nightly fuzz run recode` in native/.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use records_kernel::{Codec, CompressionLevel, Place, Recodes, Settings, Transcoder, Workspace, compress};

const PREFIX_SIZE: usize = 12;
const BATCH_HEADER_SIZE: usize = 61;
const ATTRIBUTES_AT: usize = 22;

#[derive(Arbitrary, Debug)]
struct Input {
    to_v0: bool,
    first_offset: i64,
    trim: bool,
    split_at_gaps: bool,
    header: Option<[u8; BATCH_HEADER_SIZE]>,
    data: Vec<u8>,
}

fuzz_target!(|input: Input| {
    let mut entry = input.data.clone();
    if let Some(mut header) = input.header {
        header[16] = 2; // magic
        header[ATTRIBUTES_AT] = Codec::Lz4 as u8;
        entry = header.to_vec();
        compress(Codec::Lz4, CompressionLevel::Fast, 2, &input.data, &mut entry)
            .expect("there is memory");
        let size = (entry.len() - PREFIX_SIZE) as u32;
        entry[8..PREFIX_SIZE].copy_from_slice(&size.to_be_bytes());
    }
    let settings = Settings {
        to_magic: if input.to_v0 { 0 } else { 1 },
        first_offset: input.first_offset,
        pass_codecs: 0,
        stop_transactional: false,
        recodes: Recodes {
            trim: input.trim,
            split_at_gaps: input.split_at_gaps,
            body_size_max: 1 << 16,
            inner_size_max: 1 << 16,
            ..Recodes::NONE
        },
    };
    let mut transcoder = Transcoder::new(settings);
    let mut workspace = Workspace::default();
    let recoded = transcoder.recode(&entry, Codec::Snappy, &mut workspace);
    let (records, ..) = transcoder.totals();
    match recoded {
        None => assert_eq!(records, 0),
        Some(()) => assert_eq!(workspace.made().is_empty(), records == 0),
    }
    assert!(transcoder.place == Place::Log);
});
