//! The fields of a v2 batch's header that its records need.

use crate::layout::{
    self, BASE_TIMESTAMP_AT, BATCH_HEADER_SIZE, LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT,
    RECORDS_COUNT_AT,
};
use crate::message::{bytes_at, prefix};

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

    /// Whether the whole batch is below an offset, including records that compaction removed. Its
    /// last offset may be above all existing ones: the sum does not wrap.
    #[inline(always)]
    pub fn ends_before(&self, offset: i64) -> bool {
        let delta = i64::from(self.last_offset_delta);
        match self.base_offset.checked_add(delta) {
            Some(last_offset) => last_offset < offset,
            None => delta < 0,
        }
    }

    /// The timestamp of all records under LogAppendTime.
    #[inline(always)]
    pub fn append_time(&self) -> Option<i64> {
        let is_append_time = self.attributes & layout::LOG_APPEND_TIME != 0;
        is_append_time.then_some(self.max_timestamp)
    }
}
