//! Records and entries that are larger than any window. The caller converts them, and reports that
//! with `record_converted`.

use super::batch::record_size;
use super::{Place, Transcoder};
use crate::cursor::Cursor;
use crate::outcome::Outcome;
use crate::reason::Reason;
use crate::record;
use crate::varint::Fault;
use crate::window::Window;

/// The fields of a record up to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// The absolute offset.
    pub offset: i64,
    /// The absolute timestamp.
    pub timestamp: i64,
    /// Bytes of the whole record, with its size varint.
    pub size: u64,
    /// Bytes from the beginning of the record to the key.
    pub before_key: u64,
    /// -1 is null.
    pub key_size: i32,
}

impl Transcoder {
    /// The head of the next record. An error if the window is too short for it, no record is left,
    /// or it is damaged.
    pub fn record_head(&self, window: &[u8], remaining: u64) -> Result<RecordHead, Outcome> {
        let batch = &self.batch;
        if batch.records_left == 0 {
            if self.place == Place::LogBatch && batch.bytes_left > 0 {
                return Err(Outcome::Damage(Reason::BytesAfterLastRecord));
            }
            return Err(Outcome::End);
        }
        let inside = Window::new(window, batch.bytes_left.min(remaining));
        let mut cursor = Cursor::new(inside.bytes);
        let body_size = record_size(&mut cursor, inside.beyond())?;
        let body_at = inside.bytes.len() - cursor.left();
        let body = Window::new(cursor.rest(), body_size);
        let mut cursor = Cursor::new(body.bytes);
        let head = record::head(&mut cursor).map_err(|fault| match fault {
            Fault::Short if body.beyond() > 0 => Outcome::Source,
            fault => Outcome::Damage(record::in_body(fault)),
        })?;
        let before_key = (body.bytes.len() - cursor.left()) as u64;
        let key_size = head.key_size.max(0) as u64;
        if key_size > body_size - before_key {
            return Err(Outcome::Damage(Reason::KeyRunsPastRecord));
        }
        let (offset, timestamp, _) = batch.place_of(head.offset_delta, head.timestamp_delta);
        if !self.account.is_dropped(offset) {
            let magic = self.account.output.magic;
            self.account.check(magic, (offset, timestamp), key_size).map_err(Outcome::Damage)?;
        }
        Ok(RecordHead {
            offset,
            timestamp,
            size: body_at as u64 + body_size,
            before_key: body_at as u64 + before_key,
            key_size: head.key_size.max(-1),
        })
    }

    /// Call this after converting the record or entry at the position reached into a message of
    /// `message_size` bytes, or dropping it (0). False if there is no record of `source_size`
    /// bytes.
    pub fn record_converted(
        &mut self,
        source_size: u64,
        offset: i64,
        timestamp: i64,
        message_size: u64,
    ) -> bool {
        match self.place {
            Place::Log => return false,
            Place::Entries => {}
            Place::LogBatch | Place::Batch => {
                let batch = &mut self.batch;
                if batch.records_left == 0 || source_size > batch.bytes_left {
                    return false;
                }
                batch.bytes_left -= source_size;
                batch.records_left -= 1;
            }
        }
        if message_size > 0 {
            self.account.note((offset, timestamp));
            let totals = &mut self.account.totals;
            totals.temporary_bytes = totals.temporary_bytes.wrapping_add(message_size);
        }
        true
    }
}
