//! Reads entries of a log that are whole in memory to rows, columns or a summary: all of an entry,
//! or nothing.
//!
//! An entry is ordinary if it is undamaged, small, and no compressed message of v0 or v1. For
//! others the result is None. The caller then reads them step by step, which reports the error.

use crate::arrow::ArrowColumns;
use crate::codec::{self, Codec};
use crate::crc::{crc32, crc32c};
use crate::header::Header;
use crate::layout::{
    ATTRIBUTES_AT_BATCH, ATTRIBUTES_AT_LEGACY, BASE_SEQUENCE_AT, BATCH_HEADER_SIZE, CODEC_MASK,
    CONTROL, CRC_AT_BATCH, CRC_AT_LEGACY, ENTRY_HEAD_SIZE, MAGIC_AT, PREFIX_SIZE, ROW_SIZE,
    TRANSACTIONAL, V2,
};
use crate::message::{bytes_at, prefix};
use crate::outcome::{Outcome, Progress};
use crate::sink::Summary;
use crate::transcoder::{Settings, Transcoder};
use crate::workspace::{room, with_copy};

/// The most rows that are made of one entry.
const ROWS_MAX: usize = 1024;
/// After this many rows no other entry is begun, so that the rows are still in the cache when they
/// are used.
pub const RECORDS_ENOUGH: usize = 512;
const NO_SEQUENCE: i32 = -1;

/// The options of a call.
pub struct Wanted {
    /// Whether checksums are compared.
    pub verify: bool,
    /// Whether the records of control batches are wanted.
    pub control: bool,
    /// Whether the records of transactional batches are wanted. Otherwise they are left to the
    /// caller.
    pub transactional: bool,
    /// The maximum decompressed size of a batch.
    pub body_size_max: usize,
}

/// The rows of an entry.
pub struct Entry {
    pub base_offset: i64,
    /// -1 if records have none.
    pub base_sequence: i32,
    /// The size of the decompressed body, if the records are not in the entry itself.
    pub body_size: Option<usize>,
}

/// The target for the records of an entry.
pub trait Destination {
    /// Entries of more records are left to the caller.
    const RECORDS_MAX: usize;

    /// Whether a compressed batch may have records that are wanted.
    fn want(&self, header: &Header) -> bool;

    /// Takes all `count` records of a source. None if some are missing or do not fit; some may have
    /// been taken then.
    fn take(&mut self, transcoder: &mut Transcoder, source: &[u8], count: usize) -> Option<()>;
}

/// Rows of one entry, in a buffer that is reused.
#[derive(Default)]
pub struct Rows {
    rows: Vec<u8>,
    size: usize,
}

impl Rows {
    /// The rows of the last entry.
    pub fn get(&self) -> &[u8] {
        &self.rows[..self.size]
    }

    /// No rows.
    pub fn clear(&mut self) {
        self.size = 0;
    }
}

impl Destination for Rows {
    const RECORDS_MAX: usize = ROWS_MAX;

    fn want(&self, _: &Header) -> bool {
        true
    }

    fn take(&mut self, transcoder: &mut Transcoder, source: &[u8], count: usize) -> Option<()> {
        let size = count * ROW_SIZE; // ROWS_MAX bounds it
        let rows = room(&mut self.rows, size)?;
        let reached = transcoder.columns(source, source, source.len() as u64, rows);
        let is_all = is_all(reached, source) && reached.produced == size as u64;
        self.size = if is_all { size } else { 0 };
        is_all.then_some(())
    }
}

impl Destination for ArrowColumns {
    const RECORDS_MAX: usize = usize::MAX;

    fn want(&self, header: &Header) -> bool {
        ArrowColumns::want(self, header)
    }

    fn take(&mut self, transcoder: &mut Transcoder, source: &[u8], _: usize) -> Option<()> {
        let reached = transcoder.gather(source, source.len() as u64, self);
        is_all(reached, source).then_some(())
    }
}

impl Destination for Summary {
    const RECORDS_MAX: usize = usize::MAX;

    fn want(&self, _: &Header) -> bool {
        true
    }

    fn take(&mut self, transcoder: &mut Transcoder, source: &[u8], _: usize) -> Option<()> {
        let reached = transcoder.gather(source, source.len() as u64, self);
        is_all(reached, source).then_some(())
    }
}

fn is_all(reached: Progress, source: &[u8]) -> bool {
    reached.outcome == Outcome::End && reached.consumed == source.len() as u64
}

/// The first entry of `bytes`, if it is whole.
pub fn first_entry(bytes: &[u8]) -> Option<&[u8]> {
    let (_, size) = prefix(bytes.first_chunk::<PREFIX_SIZE>()?);
    let size = usize::try_from(size).ok()?;
    bytes.get(..PREFIX_SIZE.checked_add(size)?)
}

/// Reads the whole entries in a window, up to one that is not ordinary or does not fit. Returns the
/// number of bytes read, and whether the next entry does not fit after these rows. `body` is as in
/// `read`.
pub fn gather(
    window: &[u8],
    wanted: &Wanted,
    body: &mut Vec<u8>,
    columns: &mut ArrowColumns,
) -> (usize, bool) {
    let (mut consumed, mut decompressed) = (0, 0);
    while decompressed < wanted.body_size_max {
        let Some(entry) = first_entry(&window[consumed..]) else {
            break;
        };
        if !rises(entry, &window[consumed + entry.len()..]) {
            break;
        }
        let rows = columns.rows();
        let Some(found) = read(entry, wanted, body, columns) else {
            let is_full = columns.is_full() && rows > 0;
            columns.truncate(rows);
            return (consumed, is_full);
        };
        decompressed += found.body_size.unwrap_or(0);
        consumed += entry.len();
    }
    (consumed, false)
}

/// Whether the next entry begins after the offsets of this one. No checksum covers them.
fn rises(entry: &[u8], rest: &[u8]) -> bool {
    let Some(following) = rest.first_chunk().map(|offset| i64::from_be_bytes(*offset)) else {
        return false;
    };
    match entry.first_chunk() {
        Some(head) if head[MAGIC_AT] == V2 => Header::parse(head).ends_before(following),
        _ => entry.first_chunk().is_some_and(|offset| i64::from_be_bytes(*offset) < following),
    }
}

/// Reads an ordinary entry. `body` is a buffer for its decompressed bytes.
pub fn read<D: Destination>(
    entry: &[u8],
    wanted: &Wanted,
    body: &mut Vec<u8>,
    records: &mut D,
) -> Option<Entry> {
    if *entry.get(MAGIC_AT)? != V2 {
        return read_message(entry, wanted, records);
    }
    if entry.get(ATTRIBUTES_AT_BATCH)? & CODEC_MASK == 0 {
        return read_batch(entry, wanted, body, records);
    }
    with_copy(entry, |entry| read_batch(entry, wanted, body, records))
}

fn read_batch<D: Destination>(
    entry: &[u8],
    wanted: &Wanted,
    body: &mut Vec<u8>,
    records: &mut D,
) -> Option<Entry> {
    let head: &[u8; BATCH_HEADER_SIZE] = entry.first_chunk()?;
    let header = Header::parse(head);
    let codec = header.attributes & CODEC_MASK;
    let codec = if codec == 0 { None } else { Some(Codec::of(codec)?) };
    let count = usize::try_from(header.records_count).ok()?;
    let crc = u32::from_be_bytes(bytes_at::<CRC_AT_BATCH, _, _>(head));
    if count > D::RECORDS_MAX || (wanted.verify && crc != crc32c(&entry[CRC_AT_BATCH + 4..])) {
        return None;
    }
    let mut found = Entry {
        base_offset: header.base_offset,
        base_sequence: i32::from_be_bytes(bytes_at::<BASE_SEQUENCE_AT, _, _>(head)),
        body_size: None,
    };
    if count == 0 || (header.attributes & CONTROL != 0 && !wanted.control) {
        return Some(found);
    }
    if header.attributes & TRANSACTIONAL != 0 && !wanted.transactional {
        return None;
    }
    let Some(codec) = codec else {
        records.take(&mut transcoder(), entry, count)?;
        return Some(found);
    };
    if records.want(&header) {
        let data = &entry[BATCH_HEADER_SIZE..];
        let size = codec::decompress(codec, V2, data, room(body, wanted.body_size_max)?)?;
        let mut transcoder = transcoder();
        transcoder.enter_batch(head, false);
        records.take(&mut transcoder, &body[..size], count)?;
        found.body_size = Some(size);
    }
    Some(found)
}

fn read_message<D: Destination>(entry: &[u8], wanted: &Wanted, records: &mut D) -> Option<Entry> {
    let head: &[u8; ENTRY_HEAD_SIZE] = entry.first_chunk()?;
    let crc = u32::from_be_bytes(bytes_at::<CRC_AT_LEGACY, _, _>(head));
    let is_sound = !wanted.verify || crc == crc32(0, &entry[MAGIC_AT..]);
    if entry[ATTRIBUTES_AT_LEGACY] & CODEC_MASK != 0 || !is_sound {
        return None;
    }
    records.take(&mut transcoder(), entry, 1)?;
    Some(Entry { base_offset: 0, base_sequence: NO_SEQUENCE, body_size: None })
}

/// A transcoder in a log that reads any entry without a decision.
fn transcoder() -> Transcoder {
    let mut transcoder = Transcoder::new(Settings::READING);
    transcoder.accept_next_entry();
    transcoder
}
