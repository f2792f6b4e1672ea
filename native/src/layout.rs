//! The byte layouts of message formats v0, v1 and v2: sizes and positions, derived as in
//! `records/formats.py`.
//!
//! All integers are big-endian. Not here: reading them (`entry`, `message`, `record`).

/// Of every entry: offset, size of what follows.
pub const PREFIX_SIZE: usize = 12;
/// Behind the CRC (v0, v1) or the leader epoch (v2).
pub const MAGIC_AT: usize = PREFIX_SIZE + 4;
/// What must be there of an entry to know its size, format and, for v0 and v1, its codec.
pub const ENTRY_HEAD_SIZE: usize = MAGIC_AT + 2;

/// The first format: no timestamps.
pub const V0: u8 = 0;
/// The second: a timestamp for each message.
pub const V1: u8 = 1;
/// The present one: batches.
pub const V2: u8 = 2;

/// Where the attributes of a v0 or v1 message are.
pub const ATTRIBUTES_AT_LEGACY: usize = MAGIC_AT + 1;
/// Where a v0 or v1 message keeps its CRC; it covers what is after it.
pub const CRC_AT_LEGACY: usize = PREFIX_SIZE;
/// Offset, size, crc, magic, attributes.
pub const MESSAGE_HEAD_SIZE_V0: usize = MAGIC_AT + 2;
/// The same, timestamp.
pub const MESSAGE_HEAD_SIZE_V1: usize = MESSAGE_HEAD_SIZE_V0 + 8;
/// Of key, of value.
pub const SIZE_FIELD_SIZE: usize = 4;
/// The smallest size that any entry may state: that of a v0 message without key and value.
pub const MESSAGE_SIZE_MIN_V0: i32 = (message_overhead(V0) - PREFIX_SIZE) as i32;
/// The same for v1.
pub const MESSAGE_SIZE_MIN_V1: i32 = (message_overhead(V1) - PREFIX_SIZE) as i32;

/// A message's bytes besides its key and value.
#[inline(always)]
pub const fn message_overhead(magic: u8) -> usize {
    let head = if magic == V0 { MESSAGE_HEAD_SIZE_V0 } else { MESSAGE_HEAD_SIZE_V1 };
    head + 2 * SIZE_FIELD_SIZE
}

/// Base offset, size, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max
/// timestamp, producer id, producer epoch, base sequence, record count.
pub const BATCH_HEADER_SIZE: usize = 61;
/// The smallest size that a v2 batch may state.
pub const BATCH_SIZE_MIN: i32 = (BATCH_HEADER_SIZE - PREFIX_SIZE) as i32;
/// Where a v2 batch keeps its CRC-32C; it covers what is after it.
pub const CRC_AT_BATCH: usize = MAGIC_AT + 1;
/// Only the second byte of the attributes says anything.
pub const ATTRIBUTES_AT_BATCH: usize = CRC_AT_BATCH + 4 + 1;
/// Last offset - base offset.
pub const LAST_OFFSET_DELTA_AT: usize = ATTRIBUTES_AT_BATCH + 1;
/// What the records' timestamps are relative to.
pub const BASE_TIMESTAMP_AT: usize = LAST_OFFSET_DELTA_AT + 4;
/// Under LogAppendTime the timestamp of all records.
pub const MAX_TIMESTAMP_AT: usize = BASE_TIMESTAMP_AT + 8;
/// The sequence number of the first record, or -1.
pub const BASE_SEQUENCE_AT: usize = MAX_TIMESTAMP_AT + 8 + 8 + 2;
/// The last field of a batch header.
pub const RECORDS_COUNT_AT: usize = BASE_SEQUENCE_AT + 4;

/// Attribute bits of every format.
pub const CODEC_MASK: u8 = 0x07;
/// All timestamps are the broker's.
pub const LOG_APPEND_TIME: u8 = 0x08;
/// v2 alone.
pub const TRANSACTIONAL: u8 = 0x10;
/// v2 alone.
pub const CONTROL: u8 = 0x20;

/// A v2 record without key, value and headers: seven fields of one byte each.
pub const RECORD_SIZE_MIN: i32 = 7;
/// The timestamp of a v0 message.
pub const NO_TIMESTAMP: i64 = -1;
/// No size field says more.
pub const SIZE_MAX: u64 = i32::MAX as u64;

/// Fields of a row of `columns`, and of rows that `encode` reads (`records/kernel.py`, ROW_FIELDS).
pub const ROW_FIELDS: usize = 10;
/// Each is a signed 64-bit integer in the machine's byte order.
pub const ROW_SIZE: usize = ROW_FIELDS * 8;

const _: () = {
    assert!(MAGIC_AT == 16); // the one place that all three formats agree on
    assert!(message_overhead(V0) == 26 && message_overhead(V1) == 34);
    assert!(MESSAGE_SIZE_MIN_V0 == 14 && MESSAGE_SIZE_MIN_V1 == 22);
    assert!(RECORDS_COUNT_AT + 4 == BATCH_HEADER_SIZE);
};
