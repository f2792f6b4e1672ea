//! What is known of the batch that a kernel stands in, which of its records are kept, and what they add up to.
//!
//! A batch is that of v2, in a log or entered, or the entries of a compressed message.
//! Rules 4 to 6 of the contract for each of its records are here.

use crate::item::Item;
use crate::layout::{
    self, BASE_TIMESTAMP_AT, BATCH_HEADER_SIZE, LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT,
    NO_TIMESTAMP, RECORDS_COUNT_AT, SIZE_MAX, V1,
};
use crate::message::{bytes_at, prefix};
use crate::reason::Reason;
use crate::sink::Sink;
use crate::transcoder::{Settings, Stop};

/// A batch header's fields that matter here.
pub struct Header {
    pub base_offset: i64,
    pub attributes: u8,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub records_count: i32,
}

impl Header {
    #[inline(always)]
    pub fn parse(bytes: &[u8; BATCH_HEADER_SIZE]) -> Self {
        let (base_offset, _) = prefix(bytes);
        Self {
            base_offset,
            attributes: bytes[layout::ATTRIBUTES_AT_BATCH],
            last_offset_delta: i32::from_be_bytes(bytes_at::<LAST_OFFSET_DELTA_AT, _, _>(bytes)),
            base_timestamp: i64::from_be_bytes(bytes_at::<BASE_TIMESTAMP_AT, _, _>(bytes)),
            max_timestamp: i64::from_be_bytes(bytes_at::<MAX_TIMESTAMP_AT, _, _>(bytes)),
            records_count: i32::from_be_bytes(bytes_at::<RECORDS_COUNT_AT, _, _>(bytes)),
        }
    }

    #[inline(always)]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.last_offset_delta))
    }

    /// The timestamp that all records have under LogAppendTime.
    #[inline(always)]
    pub fn append_time(&self) -> Option<i64> {
        let is_append_time = self.attributes & layout::LOG_APPEND_TIME != 0;
        is_append_time.then_some(self.max_timestamp)
    }
}

/// The records kept since the beginning.
#[derive(Default)]
pub struct Totals {
    pub records: u64,
    pub batches: u64,
    pub source_bytes: u64,
    pub produced_bytes: u64,
    pub copied_bytes: u64,
}

/// The records kept that go into one compressed message.
#[derive(Clone, Copy)]
pub struct Wrapper {
    pub records: u64,
    pub first_offset: i64,
    pub last_offset: i64,
    pub max_timestamp: i64,
    pub bytes: u64,
}

impl Wrapper {
    pub const EMPTY: Self = Self {
        records: 0,
        first_offset: -1,
        last_offset: -1,
        max_timestamp: NO_TIMESTAMP,
        bytes: 0,
    };
}

/// What becomes of the records: fixed when a batch is entered.
#[derive(Clone, Copy)]
pub struct Purpose {
    /// Of the messages written.
    pub magic: u8,
    /// Offsets below are dropped.
    pub floor: i64,
    pub is_wrapper: bool,
    pub split_at_gaps: bool,
}

impl Purpose {
    pub fn of_log(settings: &Settings) -> Self {
        Self {
            magic: settings.to_magic,
            floor: settings.first_offset,
            is_wrapper: false,
            split_at_gaps: false,
        }
    }
}

/// Where offsets and timestamps start from, what is left, and what has been kept.
pub struct Batch {
    pub purpose: Purpose,
    pub base_offset: i64,
    pub base_timestamp: i64,
    pub append_time: Option<i64>,
    pub records_left: i32,
    /// Up to the batch's end; of one that was entered it is not known.
    pub bytes_left: u64,
    /// What it counts for in the source once a record is kept.
    pub source_bytes: u64,
    pub kept: Kept,
}

/// The offsets kept in a batch.
pub struct Kept {
    /// None has been kept where this is None.
    first: Option<i64>,
    last: i64,
    /// The highest offset that is not too far from the first.
    highest: i64,
}

impl Kept {
    pub const NONE: Self = Self { first: None, last: i64::MIN, highest: i64::MAX };

    /// The last one, or -1.
    pub fn last_offset(&self) -> i64 {
        self.first.map_or(-1, |_| self.last)
    }

    #[inline(always)]
    fn check(&self, offset: i64) -> Result<(), Reason> {
        if offset > self.last && offset <= self.highest {
            return Ok(());
        }
        self.refuse(offset)
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, offset: i64) -> Result<(), Reason> {
        match self.first {
            None => Ok(()), // the lowest offset that there is
            Some(_) if offset <= self.last => Err(Reason::OffsetDoesNotIncrease),
            Some(_) => Err(Reason::OffsetDeltaTooLarge),
        }
    }
}

impl Batch {
    #[inline(always)]
    pub fn is_dropped(&self, offset: i64) -> bool {
        offset < self.purpose.floor
    }

    /// Rule 5, for a record that is kept.
    #[inline(always)]
    pub fn check(
        &self,
        magic: u8,
        offset: i64,
        timestamp: i64,
        content: u64,
    ) -> Result<(), Reason> {
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

    /// Rules 5 to 7: checks an item that is kept, and gives it to the sink.
    #[inline(always)]
    pub fn keep<S: Sink>(
        &mut self,
        item: &Item<'_>,
        wrapper: &mut Wrapper,
        totals: &mut Totals,
        sink: &mut S,
    ) -> Result<(), Stop> {
        if !S::CONVERTS {
            sink.put(item, item.offset)?;
            return Ok(());
        }
        let content = item.key.bytes.len() as u64 + item.value.bytes.len() as u64;
        self.check(S::MAGIC, item.offset, item.timestamp, content).map_err(Stop::Damage)?;
        let mut offset = item.offset;
        if self.purpose.is_wrapper && S::MAGIC == V1 {
            let first_offset = if wrapper.records == 0 { offset } else { wrapper.first_offset };
            let follows = offset == wrapper.last_offset.wrapping_add(1);
            if self.purpose.split_at_gaps && wrapper.records != 0 && !follows {
                return Err(Stop::Gap);
            }
            offset = offset.wrapping_sub(first_offset);
        }
        let size = sink.put(item, offset)?;
        self.note(item.offset, item.timestamp, size as u64, wrapper, totals);
        Ok(())
    }

    /// A message of `size` bytes has been made of a record. Bytes produced are added up by who makes them.
    #[inline(always)]
    pub fn note(
        &mut self,
        offset: i64,
        timestamp: i64,
        size: u64,
        wrapper: &mut Wrapper,
        totals: &mut Totals,
    ) {
        if self.kept.first.is_none() {
            self.kept.first = Some(offset);
            self.kept.highest = offset.saturating_add(SIZE_MAX as i64);
            totals.batches += 1;
            totals.source_bytes += self.source_bytes;
        }
        self.kept.last = offset;
        totals.records += 1;
        if self.purpose.is_wrapper {
            if wrapper.records == 0 {
                wrapper.first_offset = offset;
            }
            wrapper.records += 1;
            wrapper.last_offset = offset;
            wrapper.max_timestamp = wrapper.max_timestamp.max(timestamp);
            wrapper.bytes = wrapper.bytes.wrapping_add(size);
        }
    }
}
