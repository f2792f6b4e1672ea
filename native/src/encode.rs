//! Rows to the records of a v2 batch, or to v0 and v1 messages: the inverse of `columns`.
//!
//! Not here: batch headers, wrappers and their checksums (records/batches/builder.py).

use crate::item::Item;
use crate::layout::{self, ROW_SIZE, SIZE_MAX, V0, V1, V2};
use crate::outcome::{Outcome, Progress};
use crate::rows::{self, Refusal, TOO_LARGE};
use crate::sink::{Messages, Sink};
use crate::varint;

const MAGIC: Refusal = "magic is not 0, 1 or 2";
const OFFSET_DELTA: Refusal = "an offset delta is no 32-bit integer";

/// The bases of a batch: offsets and timestamps of its records are relative to them.
struct Bases {
    offset: i64,
    timestamp: i64,
}

/// Writes rows until the target is full.
pub fn encode(
    rows: &[u8],
    source: &[u8],
    magic: u8,
    base_offset: i64,
    base_timestamp: i64,
    target: &mut [u8],
) -> Result<Progress, Refusal> {
    let rows = rows::of(rows)?;
    let bases = Bases { offset: base_offset, timestamp: base_timestamp };
    match magic {
        V2 => encode_batch(rows, source, &bases, target),
        V0 => encode_messages::<V0>(rows, source, &bases, target),
        V1 => encode_messages::<V1>(rows, source, &bases, target),
        _ => Err(MAGIC),
    }
}

fn encode_messages<const MAGIC: u8>(
    rows: &[[u8; ROW_SIZE]],
    source: &[u8],
    bases: &Bases,
    target: &mut [u8],
) -> Result<Progress, Refusal> {
    let mut messages = Messages::<MAGIC>::new(target);
    let mut consumed = 0;
    let overhead = (layout::message_overhead(MAGIC) - layout::PREFIX_SIZE) as u64;
    let mut outcome = Outcome::End;
    for row in rows {
        let item = item_of(row, source)?;
        let content = item.key.bytes.len() as u64 + item.value.bytes.len() as u64;
        if content > SIZE_MAX - overhead {
            return Err(TOO_LARGE);
        }
        let offset = item.offset.wrapping_sub(bases.offset);
        if let Err(Outcome::Target) = messages.put(&item, offset).map(drop) {
            outcome = Outcome::Target;
            break;
        }
        consumed += ROW_SIZE as u64;
    }
    messages.finish();
    Ok(Progress { consumed, produced: messages.produced(), outcome })
}

fn encode_batch(
    rows: &[[u8; ROW_SIZE]],
    source: &[u8],
    bases: &Bases,
    target: &mut [u8],
) -> Result<Progress, Refusal> {
    let mut produced = 0;
    let mut consumed = 0;
    for row in rows {
        let (headers, headers_count) = rows::headers_of(&rows::fields(row), source)?;
        let item = Item { headers, headers_count, ..item_of(row, source)? };
        let Some(size) = write_record(&item, bases, &mut target[produced..])? else {
            let outcome = Outcome::Target;
            return Ok(Progress { consumed, produced: produced as u64, outcome });
        };
        produced += size;
        consumed += ROW_SIZE as u64;
    }
    Ok(Progress { consumed, produced: produced as u64, outcome: Outcome::End })
}

/// Writes a v2 record at the beginning of `room` and returns its size. None if it does not fit.
fn write_record(item: &Item<'_>, bases: &Bases, room: &mut [u8]) -> Result<Option<usize>, Refusal> {
    let timestamp_delta = item.timestamp.wrapping_sub(bases.timestamp);
    let offset_delta = item.offset.checked_sub(bases.offset);
    let offset_delta = offset_delta.filter(|delta| i32::try_from(*delta).is_ok());
    let offset_delta = offset_delta.ok_or(OFFSET_DELTA)?;
    let parts = [item.key.bytes, item.value.bytes, item.headers];
    let numbers = [
        timestamp_delta,
        offset_delta,
        i64::from(item.key.size),
        i64::from(item.value.size),
        i64::from(item.headers_count),
    ];
    let attributes_size = 1;
    let body = attributes_size
        + numbers.into_iter().map(varint::size).sum::<usize>() as u64
        + parts.iter().map(|part| part.len() as u64).sum::<u64>();
    if body > SIZE_MAX {
        return Err(TOO_LARGE);
    }
    let size = varint::size(body as i64) + body as usize;
    let Some(room) = room.get_mut(..size) else {
        return Ok(None);
    };
    let mut writer = Writer { room };
    writer.number(body as i64);
    writer.bytes(&[0]);
    writer.number(timestamp_delta);
    writer.number(offset_delta);
    writer.number(numbers[2]);
    writer.bytes(item.key.bytes);
    writer.number(numbers[3]);
    writer.bytes(item.value.bytes);
    writer.number(numbers[4]);
    writer.bytes(item.headers);
    Ok(Some(size))
}

/// Room that must be filled completely.
struct Writer<'a> {
    room: &'a mut [u8],
}

impl Writer<'_> {
    fn number(&mut self, value: i64) {
        let mut bytes = [0; varint::SIZE_MAX_64];
        let size = varint::write(value, &mut bytes);
        self.bytes(&bytes[..size]);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (room, rest) = std::mem::take(&mut self.room).split_at_mut(bytes.len());
        room.copy_from_slice(bytes);
        self.room = rest;
    }
}

/// A row's fields without its headers.
fn item_of<'a>(row: &[u8; ROW_SIZE], source: &'a [u8]) -> Result<Item<'a>, Refusal> {
    let [offset, timestamp, timestamp_type, key_at, key_size, value_at, value_size, ..] =
        rows::fields(row);
    Ok(Item {
        offset,
        timestamp,
        timestamp_type: i8::from(timestamp_type == 1),
        key: rows::field_of(source, key_at, key_size)?,
        value: rows::field_of(source, value_at, value_size)?,
        headers: &[],
        headers_count: 0,
    })
}
