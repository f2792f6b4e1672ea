//! Any bytes as entries of a log and as rows: no panic, and the columns of Arrow's that the kernel
//! fills in one pass are those of the rows that it notes.
//!
//! `cargo +nightly fuzz run gather` in native/.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use records_kernel::{
    ArrowColumns, BinaryColumn, Bounds, Codec, CompressionLevel, Fields, ROW_SIZE, Settings, Taken,
    Transcoder, Wanted, compress, crc32c, decompress, gather,
};

const PREFIX_SIZE: usize = 12;
const BATCH_HEADER_SIZE: usize = 61;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 22;
const CONTROL: u8 = 0x20;
const BODY_SIZE_MAX: usize = 1 << 16;
const ALL: Fields = Fields { keys: true, values: true, headers: true };

#[derive(Arbitrary, Debug)]
struct Input {
    entries: Vec<Entry>,
    rows: Vec<[i64; 10]>,
    rows_max: u8,
    bytes_max: u8,
    first_offset: i64,
    verify: bool,
}

#[derive(Arbitrary, Debug)]
enum Entry {
    /// Whatever it is.
    Bytes(Vec<u8>),
    /// A batch with the right size and checksum.
    Batch { header: [u8; BATCH_HEADER_SIZE], is_compressed: bool, records: Vec<u8> },
}

impl Entry {
    fn append(&self, log: &mut Vec<u8>) {
        let Self::Batch { header, is_compressed, records } = self else {
            let Self::Bytes(bytes) = self else { unreachable!() };
            log.extend_from_slice(bytes);
            return;
        };
        let mut entry = header.to_vec();
        entry[MAGIC_AT] = 2;
        entry[ATTRIBUTES_AT] &= !7;
        if *is_compressed {
            entry[ATTRIBUTES_AT] |= Codec::Lz4 as u8;
            compress(Codec::Lz4, CompressionLevel::Fast, 2, records, &mut entry)
                .expect("there is memory");
        } else {
            entry.extend_from_slice(records);
        }
        let size = (entry.len() - PREFIX_SIZE) as u32;
        entry[8..PREFIX_SIZE].copy_from_slice(&size.to_be_bytes());
        let crc = crc32c(&entry[CRC_AT + 4..]);
        entry[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
        log.extend_from_slice(&entry);
    }
}

/// A record: offset, timestamp, timestamp type, key, value, headers.
type Found = (i64, i64, i32, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

fn fields(column: &BinaryColumn) -> Vec<Option<Vec<u8>>> {
    let is_there = |row: usize| match &column.validity {
        Some(bits) => bits[row / 8] >> (row % 8) & 1 == 1,
        None => true,
    };
    let rows = column.ends.windows(2).enumerate();
    let found: Vec<_> = rows
        .map(|(row, ends)| {
            let bytes = column.data[ends[0] as usize..ends[1] as usize].to_vec();
            assert!(is_there(row) || bytes.is_empty());
            is_there(row).then_some(bytes)
        })
        .collect();
    assert_eq!(found.iter().filter(|field| field.is_none()).count(), column.nulls);
    assert_eq!(column.ends.last().map(|end| *end as usize), Some(column.data.len()));
    found
}

fn found(taken: Taken) -> Vec<Found> {
    let (keys, values) = (fields(&taken.keys.unwrap()), fields(&taken.values.unwrap()));
    let headers = taken.headers.unwrap();
    let (names, contents) = (fields(&headers.keys), fields(&headers.values));
    let count = taken.offsets.len();
    let sizes = [taken.timestamps.len(), taken.timestamp_types.len(), keys.len(), values.len()];
    assert_eq!(sizes, [count; 4]);
    assert_eq!((headers.ends.len(), names.len()), (count + 1, contents.len()));
    let rows = keys.into_iter().zip(values).enumerate();
    rows.map(|(row, (key, value))| {
        let range = headers.ends[row] as usize..headers.ends[row + 1] as usize;
        let pairs = range.map(|at| (names[at].clone().unwrap(), contents[at].clone()));
        let kind = taken.timestamp_types[row];
        (taken.offsets[row], taken.timestamps[row], kind, key, value, pairs.collect())
    })
    .collect()
}

fn columns(rows_max: usize, bytes_max: usize, first_offset: i64) -> ArrowColumns {
    let bounds = Bounds { first_offset, ..Bounds::NONE };
    ArrowColumns::new(rows_max, bytes_max, ALL, bounds).expect("this is a size")
}

/// All records of a log, as far as they are ordinary: by columns in one pass, and how far it came.
fn gathered(log: &[u8], input: &Input) -> (Vec<Found>, usize) {
    let (rows_max, bytes_max) = (usize::from(input.rows_max).max(1), usize::from(input.bytes_max));
    let mut columns = columns(rows_max, bytes_max, input.first_offset);
    let wanted = Wanted { verify: input.verify, control: false, transactional: true,
        body_size_max: BODY_SIZE_MAX };
    let (mut all, mut at, mut body) = (vec![], 0, vec![]);
    loop {
        let (consumed, is_full) = gather(&log[at..], &wanted, &mut body, &mut columns);
        at += consumed;
        let taken = found(columns.take());
        assert!(taken.len() <= rows_max);
        assert!(consumed > 0 || !is_full || !taken.is_empty());
        let is_done = consumed == 0 && !is_full;
        all.extend(taken);
        if is_done {
            return (all, at);
        }
    }
}

/// The same entries by rows, one after the other.
fn by_rows(mut log: &[u8], first_offset: i64) -> Vec<Found> {
    let mut columns = columns(usize::MAX, i32::MAX as usize, first_offset);
    while !log.is_empty() {
        let size = i32::from_be_bytes(log[8..PREFIX_SIZE].try_into().unwrap());
        let (entry, rest) = log.split_at(PREFIX_SIZE + size as usize);
        log = rest;
        let mut transcoder = Transcoder::new(Settings::READING);
        let mut body = entry.to_vec();
        if entry[MAGIC_AT] == 2 {
            let (head, data) = entry.split_first_chunk::<BATCH_HEADER_SIZE>().unwrap();
            if head[ATTRIBUTES_AT] & CONTROL != 0 || head[57..] == [0; 4] {
                continue;
            }
            if let Some(codec) = Codec::of(head[ATTRIBUTES_AT] & 7) {
                let last = i32::from_be_bytes(head[23..27].try_into().unwrap());
                let base = i64::from_be_bytes(head[..8].try_into().unwrap());
                if i128::from(base) + i128::from(last) < i128::from(first_offset) {
                    continue; // whatever it decompresses to
                }
                body = vec![0; BODY_SIZE_MAX];
                let size = decompress(codec, 2, data, &mut body).expect("it was read");
                body.truncate(size);
                transcoder.enter_batch(head, false);
            }
        }
        let mut rows = vec![0; (body.len() / 7 + 1) * ROW_SIZE];
        let reached = transcoder.columns(&body, &body, body.len() as u64, &mut rows);
        assert_eq!(reached.consumed as usize, body.len());
        let (rows, _) = rows[..reached.produced as usize].as_chunks();
        assert_eq!(columns.add_rows(rows, &body), Ok(rows.len()));
    }
    found(columns.take())
}

fuzz_target!(|input: Input| {
    let mut log = vec![];
    for entry in &input.entries {
        entry.append(&mut log);
    }
    let (all, end) = gathered(&log, &input);
    let whole = Input { rows_max: u8::MAX, bytes_max: u8::MAX, entries: vec![], rows: vec![], ..input };
    let (more, further) = gathered(&log, &whole);
    assert!(further >= end && more.starts_with(&all));
    assert_eq!(all, by_rows(&log[..end], input.first_offset));

    let rows: Vec<[u8; ROW_SIZE]> = input.rows.iter().map(|row| {
        let mut bytes = [0; ROW_SIZE];
        for (target, field) in bytes.chunks_exact_mut(8).zip(row) {
            target.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }).collect();
    let mut columns = columns(usize::from(input.rows_max).max(1), 99, input.first_offset);
    let before = columns.rows();
    match columns.add_rows(&rows, &log) {
        Ok(read) => assert!(read <= rows.len()),
        Err(_) => assert_eq!(columns.rows(), before),
    }
    found(columns.take());
});
