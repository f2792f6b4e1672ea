//! Decides which records are kept, checks that they can become messages, and counts the result.
//!
//! In this file, a batch is a v2 batch, or the entries of a compressed message.

use crate::item::Item;
use crate::layout::{self, NO_TIMESTAMP, SIZE_MAX, V1};
use crate::outcome::Outcome;
use crate::reason::Reason;
use crate::sink::Sink;

/// Counts since the transcoder was made.
#[derive(Clone, Copy, Default)]
pub struct Totals {
    pub records: u64,
    /// Batches with at least one record that was kept.
    pub batches: u64,
    /// Bytes of kept batches, messages made and entries copied.
    pub temporary_bytes: u64,
    /// Decompressed bytes of recoded entries.
    pub decompressed_bytes: u64,
}

/// The records kept that go into one compressed message.
#[derive(Clone, Copy)]
pub struct Wrapper {
    pub records: u64,
    pub first_offset: i64,
    pub last_offset: i64,
    pub max_timestamp: i64,
}

impl Wrapper {
    pub const EMPTY: Self =
        Self { records: 0, first_offset: -1, last_offset: -1, max_timestamp: NO_TIMESTAMP };

    fn add(&mut self, offset: i64, timestamp: i64) {
        if self.records == 0 {
            self.first_offset = offset;
        }
        self.records += 1;
        self.last_offset = offset;
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }
}

/// The offsets kept in a batch.
#[derive(Clone)]
pub struct Kept {
    first: Option<i64>,
    last: i64,
}

impl Kept {
    const NONE: Self = Self { first: None, last: i64::MIN };

    #[inline(always)]
    fn check(&self, offset: i64) -> Result<(), Reason> {
        match self.first {
            Some(_) if offset <= self.last => Err(Reason::OffsetDoesNotIncrease),
            Some(first) if offset.wrapping_sub(first) as u64 > SIZE_MAX => {
                Err(Reason::OffsetDeltaTooLarge)
            }
            _ => Ok(()),
        }
    }
}

/// How records become messages. Set when a batch is entered.
#[derive(Clone, Copy)]
pub struct OutputSpec {
    /// The format of the messages made.
    pub magic: u8,
    /// Records below it are dropped.
    pub lowest_offset: i64,
    pub is_wrapper: bool,
    pub split_at_gaps: bool,
}

#[derive(Clone)]
pub struct Account {
    pub output: OutputSpec,
    pub wrapper: Wrapper,
    pub totals: Totals,
    kept: Kept,
    /// The batch's size, which is added to the totals once a record of it is kept.
    source_bytes: u64,
}

impl Account {
    pub fn new(output: OutputSpec) -> Self {
        Self {
            output,
            wrapper: Wrapper::EMPTY,
            totals: Totals::default(),
            kept: Kept::NONE,
            source_bytes: 0,
        }
    }

    /// Begins another batch.
    #[inline(always)]
    pub fn start_batch(&mut self, source_bytes: u64) {
        self.kept = Kept::NONE;
        self.source_bytes = source_bytes;
    }

    /// The last offset kept in this batch.
    pub fn last_offset(&self) -> Option<i64> {
        self.kept.first.map(|_| self.kept.last)
    }

    #[inline(always)]
    pub fn is_dropped(&self, offset: i64) -> bool {
        offset < self.output.lowest_offset
    }

    /// Rule 5: whether a kept record can become a message. `content`: the bytes of its key and
    /// value.
    #[inline(always)]
    pub fn check(&self, magic: u8, at: (i64, i64), content: u64) -> Result<(), Reason> {
        let (offset, timestamp) = at;
        if timestamp < NO_TIMESTAMP {
            return Err(Reason::NegativeTimestamp);
        }
        self.kept.check(offset)?;
        let overhead = layout::message_overhead(magic) - layout::PREFIX_SIZE;
        if content > SIZE_MAX - overhead as u64 {
            return Err(Reason::RecordTooLarge);
        }
        Ok(())
    }

    /// Rules 4 to 7: drops a record, or checks it and passes it to the sink.
    #[inline(always)]
    pub fn take<S: Sink>(&mut self, item: &Item<'_>, sink: &mut S) -> Result<(), Outcome> {
        if self.is_dropped(item.offset) {
            return Ok(());
        }
        if !S::CONVERTS {
            return sink.put(item, item.offset).map(drop);
        }
        let content = item.key.bytes.len() as u64 + item.value.bytes.len() as u64;
        let at = (item.offset, item.timestamp);
        self.check(S::MAGIC, at, content).map_err(Outcome::Damage)?;
        let mut offset = item.offset;
        if self.output.is_wrapper && S::MAGIC == V1 {
            offset = self.offset_in_wrapper(offset)?;
        }
        sink.put(item, offset)?;
        self.note(at);
        Ok(())
    }

    /// Rule 6, and the offset relative to the wrapper's first.
    fn offset_in_wrapper(&self, offset: i64) -> Result<i64, Outcome> {
        if self.wrapper.records == 0 {
            return Ok(0);
        }
        if self.output.split_at_gaps && offset != self.wrapper.last_offset.wrapping_add(1) {
            return Err(Outcome::Gap);
        }
        Ok(offset.wrapping_sub(self.wrapper.first_offset))
    }

    /// Counts a message made from the record with this offset and timestamp. Its bytes are not
    /// added to the totals: each call adds them once.
    #[inline(always)]
    pub fn note(&mut self, at: (i64, i64)) {
        let (offset, timestamp) = at;
        if self.kept.first.is_none() {
            self.kept.first = Some(offset);
            self.totals.batches += 1;
            self.totals.temporary_bytes += self.source_bytes;
        }
        self.kept.last = offset;
        self.totals.records += 1;
        if self.output.is_wrapper {
            self.wrapper.add(offset, timestamp);
        }
    }

    /// Counts an uncompressed message of a log as a batch of one.
    pub fn note_message(&mut self, source_bytes: u64) {
        self.totals.records += 1;
        self.totals.batches += 1;
        self.totals.temporary_bytes += source_bytes;
    }
}
