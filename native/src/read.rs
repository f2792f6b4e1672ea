//! One entry of a log that is whole in memory, to rows: all of it, or nothing.
//!
//! An entry is ordinary if it is undamaged, small, and no compressed message of v0 or v1. Others
//! are None here; the caller reads them step by step, which says what is wrong.

use crate::codec::{self, Codec};
use crate::crc::{crc32, crc32c};
use crate::header::Header;
use crate::layout::{
    ATTRIBUTES_AT_LEGACY, BASE_SEQUENCE_AT, BATCH_HEADER_SIZE, CODEC_MASK, CONTROL, CRC_AT_BATCH,
    CRC_AT_LEGACY, ENTRY_HEAD_SIZE, MAGIC_AT, PREFIX_SIZE, ROW_SIZE, V2,
};
use crate::message::{bytes_at, prefix};
use crate::outcome::Outcome;
use crate::transcoder::{Entered, Settings, Transcoder};
use crate::workspace::room;

/// Of one entry.
const RECORDS_MAX: usize = 1024;
/// After so many no other entry is begun: they are still in the cache when they are looked at.
pub const RECORDS_ENOUGH: usize = 512;
const NO_SEQUENCE: i32 = -1;
/// A buffer of more bytes is not kept.
const KEPT_MAX: usize = 1024 * 1024;

/// The buffers of reading, which are reused.
#[derive(Default)]
pub struct Reading {
    rows: Vec<u8>,
    body: Vec<u8>,
    /// Of `rows`, and of `body`, that the last entry has filled.
    rows_size: usize,
    body_size: usize,
}

/// What is to be read.
pub struct Wanted {
    /// Whether checksums are compared.
    pub verify: bool,
    /// Whether the records of control batches are wanted.
    pub control: bool,
    /// The most that a batch may decompress to.
    pub body_size_max: usize,
}

/// What sequence numbers count from.
pub struct Bases {
    pub offset: i64,
    /// -1: records have none.
    pub sequence: i32,
}

/// The entry that bytes begin with, if it is whole.
pub fn first_entry(bytes: &[u8]) -> Option<&[u8]> {
    let head: &[u8; ENTRY_HEAD_SIZE] = bytes.first_chunk()?;
    let (_, size) = prefix(head);
    let size = usize::try_from(size).ok()?;
    let entry = bytes.get(..PREFIX_SIZE.checked_add(size)?)?;
    (entry.len() > ENTRY_HEAD_SIZE).then_some(entry)
}

impl Reading {
    /// Rows of an ordinary entry. No rows: it has no records, or none that are wanted.
    pub fn read(&mut self, entry: &[u8], wanted: &Wanted) -> Option<Bases> {
        (self.rows_size, self.body_size) = (0, 0);
        if *entry.get(MAGIC_AT)? == V2 {
            self.read_batch(entry, wanted)
        } else {
            self.read_message(entry, wanted)
        }
    }

    fn read_batch(&mut self, entry: &[u8], wanted: &Wanted) -> Option<Bases> {
        let head: &[u8; BATCH_HEADER_SIZE] = entry.first_chunk()?;
        let header = Header::parse(head);
        let codec = header.attributes & CODEC_MASK;
        let codec = if codec == 0 { None } else { Some(Codec::of(codec)?) };
        let sequence = i32::from_be_bytes(bytes_at::<BASE_SEQUENCE_AT, _, _>(head));
        let bases = Bases { offset: header.base_offset, sequence };
        if header.attributes & CONTROL != 0 && !wanted.control {
            return Some(bases);
        }
        let count = usize::try_from(header.records_count).ok()?;
        if count > RECORDS_MAX {
            return None;
        }
        let crc = u32::from_be_bytes(bytes_at::<CRC_AT_BATCH, _, _>(head));
        if wanted.verify && crc != crc32c(&entry[CRC_AT_BATCH + 4..]) {
            return None;
        }
        if count == 0 {
            return Some(bases);
        }
        let Some(codec) = codec else {
            self.rows_of(&mut transcoder(), entry, count)?;
            return Some(bases);
        };
        let data = &entry[BATCH_HEADER_SIZE..];
        let mut body = std::mem::take(&mut self.body);
        let rows = decompress(codec, data, &mut body, wanted.body_size_max).and_then(|size| {
            let mut transcoder = transcoder();
            let entered = Entered { is_wrapper: false, trim: false, split_at_gaps: false };
            transcoder.enter_batch(head, entered);
            self.rows_of(&mut transcoder, &body[..size], count)?;
            Some(size)
        });
        self.body = body;
        self.body_size = rows?;
        Some(bases)
    }

    fn read_message(&mut self, entry: &[u8], wanted: &Wanted) -> Option<Bases> {
        let head: &[u8; ENTRY_HEAD_SIZE] = entry.first_chunk()?;
        let crc = u32::from_be_bytes(bytes_at::<CRC_AT_LEGACY, _, _>(head));
        let is_sound = !wanted.verify || crc == crc32(0, &entry[MAGIC_AT..]);
        if entry[ATTRIBUTES_AT_LEGACY] & CODEC_MASK != 0 || !is_sound {
            return None;
        }
        self.rows_of(&mut transcoder(), entry, 1)?;
        Some(Bases { offset: 0, sequence: NO_SEQUENCE })
    }

    /// Rows of all of a source, which has `count` records.
    fn rows_of(&mut self, transcoder: &mut Transcoder, source: &[u8], count: usize) -> Option<()> {
        let size = count * ROW_SIZE; // RECORDS_MAX bounds it
        let rows = room(&mut self.rows, size)?;
        let reached = transcoder.columns(source, source, source.len() as u64, rows);
        let is_all = reached.outcome == Outcome::End
            && reached.consumed == source.len() as u64
            && reached.produced == size as u64;
        self.rows_size = if is_all { size } else { 0 };
        is_all.then_some(())
    }

    /// The rows of the last entry.
    pub fn rows(&self) -> &[u8] {
        &self.rows[..self.rows_size]
    }

    /// What rows point into, where that is not the entry.
    pub fn body(&self) -> Option<&[u8]> {
        (self.body_size > 0).then(|| &self.body[..self.body_size])
    }

    /// Frees the buffers that have grown larger than usual.
    pub fn trim(&mut self) {
        if self.body.capacity() > KEPT_MAX {
            self.body = Vec::new();
        }
    }
}

/// Stands in a log, before an entry that is read whatever it is.
fn transcoder() -> Transcoder {
    let mut transcoder = Transcoder::new(Settings {
        to_magic: 0,
        first_offset: i64::MIN,
        pass_codecs: 0,
        stop_transactional: false,
    });
    transcoder.allow_next();
    transcoder
}

fn decompress(codec: Codec, data: &[u8], body: &mut Vec<u8>, size_max: usize) -> Option<usize> {
    codec::decompress(codec, V2, data, room(body, size_max)?)
}
