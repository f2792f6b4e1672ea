//! The records of a v2 batch, in a log or entered by the caller.

use super::{Place, Transcoder};
use crate::account::Account;
use crate::cursor::Cursor;
use crate::fast_path;
use crate::header::Header;
use crate::item::{self, Item};
use crate::outcome::Outcome;
use crate::prefetch;
use crate::reason::Reason;
use crate::record::{self, Record};
use crate::sink::Sink;
use crate::varint::{self, Fault};
use crate::window::Window;

/// The bases of a batch's records, and the number of records left. The entries of a compressed
/// message also form a batch. They are not counted.
#[derive(Clone, Default)]
pub struct Batch {
    pub base_offset: i64,
    pub base_timestamp: i64,
    pub append_time: Option<i64>,
    /// Never negative.
    pub records_left: i32,
    pub bytes_left: u64,
}

impl Batch {
    #[inline(always)]
    pub fn of_records(header: &Header, bytes_left: u64) -> Self {
        Self {
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            append_time: header.append_time(),
            records_left: header.records_count.max(0),
            bytes_left,
        }
    }

    pub fn of_entries(base_offset: i64, append_time: Option<i64>) -> Self {
        Self { base_offset, append_time, ..Self::default() }
    }

    /// A record's offset, timestamp and timestamp type.
    #[inline(always)]
    pub fn place_of(&self, offset_delta: i32, timestamp_delta: i64) -> (i64, i64, i8) {
        let offset = self.base_offset.wrapping_add(i64::from(offset_delta));
        match self.append_time {
            Some(timestamp) => (offset, timestamp, item::LOG_APPEND_TIME),
            None => {
                let timestamp = self.base_timestamp.wrapping_add(timestamp_delta);
                (offset, timestamp, item::CREATE_TIME)
            }
        }
    }
}

impl Transcoder {
    /// Takes the records that are whole in the window and fit, up to the batch's end.
    #[inline(always)]
    pub(super) fn records<S: Sink>(
        &mut self,
        window: &mut Window<'_>,
        sink: &mut S,
    ) -> Result<(), Outcome> {
        let Self { batch, account, .. } = self;
        let inside = Window::new(window.bytes, batch.bytes_left.min(window.remaining));
        let beyond = inside.beyond();
        let mut bytes = inside.bytes;
        let mut done = 0;
        let mut result = Ok(());
        let count = batch.records_left;
        while done < count {
            match one_record(bytes, beyond, batch, account, sink) {
                Ok(after) => bytes = after,
                Err(stop) => {
                    result = Err(stop);
                    break;
                }
            }
            done += 1;
        }
        let consumed = (inside.bytes.len() - bytes.len()) as u64;
        batch.records_left -= done;
        batch.bytes_left -= consumed;
        window.advance(consumed);
        result?;
        self.finish_batch()
    }

    /// Rule 1 of records, for a batch with no record left.
    #[inline(always)]
    fn finish_batch(&mut self) -> Result<(), Outcome> {
        if self.place == Place::Batch {
            return Err(Outcome::End);
        }
        if self.batch.bytes_left > 0 {
            return Err(Outcome::Damage(Reason::BytesAfterLastRecord));
        }
        self.place = Place::Log;
        Ok(())
    }
}

/// Reads a record, keeps or drops it, and returns the bytes after it. `beyond`: the number of the
/// batch's bytes after `bytes`.
#[inline(always)]
fn one_record<'a, S: Sink>(
    bytes: &'a [u8],
    beyond: u64,
    batch: &Batch,
    account: &mut Account,
    sink: &mut S,
) -> Result<&'a [u8], Outcome> {
    match fast_path::read(bytes) {
        Some((record, after)) => {
            if S::READS_ALL {
                prefetch::ahead(after, bytes.len() - after.len());
            }
            account.take(&item_of(&record, batch), sink)?;
            Ok(after)
        }
        None => any_record(bytes, beyond, batch, account, sink),
    }
}

/// Does the same as `one_record`, for any record. It is not inlined, to keep the fast path fast.
#[inline(never)]
fn any_record<'a, S: Sink>(
    bytes: &'a [u8],
    beyond: u64,
    batch: &Batch,
    account: &mut Account,
    sink: &mut S,
) -> Result<&'a [u8], Outcome> {
    let mut cursor = Cursor::new(bytes);
    let size = record_size(&mut cursor, beyond)?;
    let body = cursor.take(size as usize).map_err(|_| Outcome::Source)?;
    let record = record::parse(body).map_err(Outcome::Damage)?;
    account.take(&item_of(&record, batch), sink)?;
    Ok(cursor.rest())
}

#[inline(always)]
fn item_of<'a>(record: &Record<'a>, batch: &Batch) -> Item<'a> {
    let (offset, timestamp, timestamp_type) =
        batch.place_of(record.offset_delta, record.timestamp_delta);
    Item {
        offset,
        timestamp,
        timestamp_type,
        key: record.key,
        value: record.value,
        headers: record.headers,
        headers_count: record.headers_count,
    }
}

/// Rule 2: the size of a record, checked against the batch's end. The record may run past the
/// window.
pub fn record_size(cursor: &mut Cursor<'_>, beyond: u64) -> Result<u64, Outcome> {
    let size = varint::read_i32(cursor).map_err(|fault| match fault {
        Fault::Short if beyond > 0 => Outcome::Source,
        Fault::Short => Outcome::Damage(Reason::BatchEndsEarly),
        Fault::TooLong => Outcome::Damage(Reason::VarintTooLong),
    })?;
    let size = u64::try_from(size).map_err(|_| Outcome::Damage(Reason::NegativeRecordSize))?;
    if size > cursor.left() as u64 + beyond {
        return Err(Outcome::Damage(Reason::RecordRunsPastBatch));
    }
    Ok(size)
}
