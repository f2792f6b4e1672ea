//! Rows of any numbers: no panic. And what `columns` finds in any bytes, `encode` writes so that it
//! is found again.
//!
//! `cargo +nightly fuzz run encode` in native/.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use records_kernel::{ROW_FIELDS, ROW_SIZE, Settings, Transcoder, encode};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    rows: &'a [u8],
    magic: u8,
    base_offset: i64,
    base_timestamp: i64,
    room: u16,
    records: &'a [u8],
}

/// A row without its positions, and the bytes that they pointed at.
type Found = ([i64; ROW_FIELDS], [Vec<u8>; 3]);

/// Reads records of a v2 batch of offset and timestamp 0: all rows, as they are and resolved.
fn columns(records: &[u8]) -> (Vec<u8>, Vec<Found>) {
    let mut header = [0; 61];
    header[57..].copy_from_slice(&i32::MAX.to_be_bytes());
    let mut transcoder = Transcoder::new(Settings::READING);
    transcoder.enter_batch(&header, false);
    let mut rows = vec![0; records.len() / 7 * ROW_SIZE];
    let reached = transcoder.columns(records, records, records.len() as u64, &mut rows);
    rows.truncate(reached.produced as usize);
    let found = rows.chunks_exact(ROW_SIZE).map(|row| found(row, records)).collect();
    (rows, found)
}

fn found(row: &[u8], records: &[u8]) -> Found {
    let mut fields = [0; ROW_FIELDS];
    for (field, bytes) in fields.iter_mut().zip(row.chunks_exact(8)) {
        *field = i64::from_ne_bytes(bytes.try_into().unwrap());
    }
    let bytes = [3, 5, 7].map(|index| {
        let at = std::mem::take(&mut fields[index]) as usize;
        records[at..][..fields[index + 1].max(0) as usize].to_vec()
    });
    (fields, bytes)
}

fuzz_target!(|input: Input<'_>| {
    let mut target = vec![0; usize::from(input.room)];
    let Input { rows, magic, base_offset, base_timestamp, records, .. } = input;
    let _ = encode(rows, records, magic, base_offset, base_timestamp, &mut target);

    let (rows, before) = columns(records);
    let mut target = vec![0; records.len() + 64];
    let reached = encode(&rows, records, 2, 0, 0, &mut target).expect("rows of columns are good");
    assert_eq!(reached.consumed as usize, rows.len());
    let (_, after) = columns(&target[..reached.produced as usize]);
    assert_eq!(after, before);
});
