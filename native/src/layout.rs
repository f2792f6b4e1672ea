//! The byte layouts of message formats v0, v1 and v2: sizes and positions, derived as in
//! `records/formats.py`.
//!
//! All integers are big-endian. Not here: reading them (`entry`, `message`, `record`).

/// The prefix of every entry: offset, size of the rest.
pub const PREFIX_SIZE: usize = 12;
/// The position of the leader epoch in a v2 batch.
pub const LEADER_EPOCH_AT: usize = PREFIX_SIZE;
/// After the CRC (v0, v1) or the leader epoch (v2).
pub const MAGIC_AT: usize = PREFIX_SIZE + 4;
/// The bytes of an entry that hold its size, its format and (v0 and v1) its codec.
pub const ENTRY_HEAD_SIZE: usize = MAGIC_AT + 2;

/// The first format: no timestamps.
pub const V0: u8 = 0;
/// The second: a timestamp for each message.
pub const V1: u8 = 1;
/// The current format: batches.
pub const V2: u8 = 2;

/// The position of the attributes in a v0 or v1 message.
pub const ATTRIBUTES_AT_LEGACY: usize = MAGIC_AT + 1;
/// The position of the CRC in a v0 or v1 message. It covers all bytes after it.
pub const CRC_AT_LEGACY: usize = PREFIX_SIZE;
/// Offset, size, crc, magic, attributes.
pub const MESSAGE_HEAD_SIZE_V0: usize = MAGIC_AT + 2;
/// The same fields, and a timestamp.
pub const MESSAGE_HEAD_SIZE_V1: usize = MESSAGE_HEAD_SIZE_V0 + 8;
/// The size field of a key or value.
pub const SIZE_FIELD_SIZE: usize = 4;
/// The minimum size field of any entry: that of a v0 message without key and value.
pub const MESSAGE_SIZE_MIN_V0: i32 = (message_overhead(V0) - PREFIX_SIZE) as i32;
/// The minimum for v1.
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
/// The minimum size field of a v2 batch.
pub const BATCH_SIZE_MIN: i32 = (BATCH_HEADER_SIZE - PREFIX_SIZE) as i32;
/// The position of the CRC-32C in a v2 batch. It covers all bytes after it.
pub const CRC_AT_BATCH: usize = MAGIC_AT + 1;
/// Only the second byte of the attributes is used.
pub const ATTRIBUTES_AT_BATCH: usize = CRC_AT_BATCH + 4 + 1;
/// Last offset - base offset.
pub const LAST_OFFSET_DELTA_AT: usize = ATTRIBUTES_AT_BATCH + 1;
/// The records' timestamps are relative to this field.
pub const BASE_TIMESTAMP_AT: usize = LAST_OFFSET_DELTA_AT + 4;
/// The timestamp of all records under LogAppendTime.
pub const MAX_TIMESTAMP_AT: usize = BASE_TIMESTAMP_AT + 8;
/// The id of an idempotent producer, or -1.
pub const PRODUCER_ID_AT: usize = MAX_TIMESTAMP_AT + 8;
/// The epoch of the producer's id, or -1.
pub const PRODUCER_EPOCH_AT: usize = PRODUCER_ID_AT + 8;
/// The sequence number of the first record, or -1.
pub const BASE_SEQUENCE_AT: usize = PRODUCER_EPOCH_AT + 2;
/// The last field of a batch header.
pub const RECORDS_COUNT_AT: usize = BASE_SEQUENCE_AT + 4;

/// Attribute bits of every format.
pub const CODEC_MASK: u8 = 0x07;
/// LogAppendTime: all timestamps are the broker's.
pub const LOG_APPEND_TIME: u8 = 0x08;
/// v2 alone.
pub const TRANSACTIONAL: u8 = 0x10;
/// v2 alone.
pub const CONTROL: u8 = 0x20;

/// A v2 record without key, value and headers: seven fields of one byte each.
pub const RECORD_SIZE_MIN: i32 = 7;
/// The timestamp of a v0 message.
pub const NO_TIMESTAMP: i64 = -1;
/// The maximum of a size field.
pub const SIZE_MAX: u64 = i32::MAX as u64;

/// Fields of a row of `columns`, and of rows that `encode` reads (`records/kernel.py`, ROW_FIELDS).
pub const ROW_FIELDS: usize = 10;
/// Each is a signed 64-bit integer in the machine's byte order.
pub const ROW_SIZE: usize = ROW_FIELDS * 8;

const _: () = {
    assert!(MAGIC_AT == 16); // the only field with the same position in all three formats
    assert!(message_overhead(V0) == 26 && message_overhead(V1) == 34);
    assert!(MESSAGE_SIZE_MIN_V0 == 14 && MESSAGE_SIZE_MIN_V1 == 22);
    assert!(RECORDS_COUNT_AT + 4 == BATCH_HEADER_SIZE);
};
