//! Drops, copies, converts or enters the entries of a log.

use super::batch::Batch;
use super::{Place, Transcoder};
use crate::header::Header;
use crate::layout::{
    self, BATCH_HEADER_SIZE, BATCH_SIZE_MIN, CODEC_MASK, CONTROL, ENTRY_HEAD_SIZE,
    MESSAGE_SIZE_MIN_V0, NO_TIMESTAMP, PREFIX_SIZE, RECORD_SIZE_MIN, TRANSACTIONAL, V2,
};
use crate::message;
use crate::outcome::Outcome;
use crate::reason::Reason;
use crate::sink::Sink;
use crate::window::Window;

impl Transcoder {
    /// Rules 1 to 3, then the rule for the entry's format.
    #[inline(always)]
    pub(super) fn entry<S: Sink>(
        &mut self,
        window: &mut Window<'_>,
        sink: &mut S,
    ) -> Result<(), Outcome> {
        if window.remaining < ENTRY_HEAD_SIZE as u64 {
            return Err(Outcome::End);
        }
        let head = window.bytes.first_chunk::<ENTRY_HEAD_SIZE>().ok_or(Outcome::Source)?;
        let size = message::prefix(head).1;
        let magic = head[layout::MAGIC_AT];
        if size < MESSAGE_SIZE_MIN_V0 {
            return Err(Outcome::Damage(Reason::EntryTooSmall));
        }
        if magic > V2 {
            return Err(Outcome::Damage(Reason::UnknownMagic));
        }
        let entry_size = size as u64 + PREFIX_SIZE as u64;
        if entry_size > window.remaining {
            return Err(Outcome::End);
        }
        let passes = S::CONVERTS && magic <= self.settings.to_magic;
        if magic < V2 {
            let codec = head[layout::ATTRIBUTES_AT_LEGACY] & CODEC_MASK;
            if passes {
                return self.copy(codec, entry_size, window, sink);
            }
            return self.message(codec, entry_size, window, sink);
        }
        if size < BATCH_SIZE_MIN {
            return Err(Outcome::Damage(Reason::BatchTooSmall));
        }
        let header = Header::parse(window.bytes.first_chunk().ok_or(Outcome::Source)?);
        if passes {
            return self.copy(header.attributes & CODEC_MASK, entry_size, window, sink);
        }
        self.batch::<S>(&header, size, entry_size, window)
    }

    /// Rule 4: copies an entry that is old enough already.
    fn copy<S: Sink>(
        &mut self,
        codec: u8,
        entry_size: u64,
        window: &mut Window<'_>,
        sink: &mut S,
    ) -> Result<(), Outcome> {
        if !self.is_accepted && self.settings.pass_codecs >> codec & 1 == 0 {
            return Err(Outcome::Batch);
        }
        sink.copy(window.whole(entry_size)?)?;
        self.pass(entry_size, window);
        Ok(())
    }

    /// Rule 5: drops or enters a v2 batch.
    #[inline(always)]
    fn batch<S: Sink>(
        &mut self,
        header: &Header,
        size: i32,
        entry_size: u64,
        window: &mut Window<'_>,
    ) -> Result<(), Outcome> {
        if header.records_count < 0 {
            return Err(Outcome::Damage(Reason::NegativeRecordCount));
        }
        let mut is_dropped = false;
        if header.attributes & (CONTROL | CODEC_MASK | TRANSACTIONAL) != 0 {
            is_dropped = self.decided::<S>(header.attributes)?;
        }
        let is_below = header.ends_before(self.settings.first_offset);
        if is_dropped || header.records_count == 0 || is_below {
            self.pass(entry_size, window);
            return Ok(());
        }
        if header.records_count > (size - BATCH_SIZE_MIN) / RECORD_SIZE_MIN {
            return Err(Outcome::Damage(Reason::MoreRecordsThanBytes));
        }
        self.place = Place::LogBatch;
        self.batch = Batch::of_records(header, entry_size - BATCH_HEADER_SIZE as u64);
        self.account.start_batch(entry_size);
        self.pass(BATCH_HEADER_SIZE as u64, window);
        Ok(())
    }

    /// Rules 5b to 5d: whether a control, compressed or transactional batch is dropped or needs a
    /// decision.
    fn decided<S: Sink>(&self, attributes: u8) -> Result<bool, Outcome> {
        let stops = self.settings.stop_transactional && !self.is_accepted;
        if attributes & CONTROL != 0 {
            if stops || (!S::CONVERTS && !self.is_accepted) {
                return Err(Outcome::Batch);
            }
            if S::CONVERTS {
                return Ok(true);
            }
        }
        if attributes & CODEC_MASK != 0 || (attributes & TRANSACTIONAL != 0 && stops) {
            return Err(Outcome::Batch);
        }
        Ok(false)
    }

    /// Rule 6: converts an uncompressed v0 or v1 message.
    fn message<S: Sink>(
        &mut self,
        codec: u8,
        entry_size: u64,
        window: &mut Window<'_>,
        sink: &mut S,
    ) -> Result<(), Outcome> {
        if codec != 0 {
            return Err(Outcome::Batch);
        }
        let item = message::parse(window.whole(entry_size)?).map_err(Outcome::Damage)?;
        if item.offset >= self.settings.first_offset {
            if S::CONVERTS && item.timestamp < NO_TIMESTAMP {
                return Err(Outcome::Damage(Reason::NegativeTimestamp));
            }
            sink.put(&item, item.offset)?;
            if S::CONVERTS {
                self.account.note_message(entry_size);
            }
        }
        self.pass(entry_size, window);
        Ok(())
    }

    #[inline(always)]
    fn pass(&mut self, size: u64, window: &mut Window<'_>) {
        self.is_accepted = false;
        window.advance(size);
    }
}
