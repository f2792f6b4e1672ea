//! One v0 or v1 message. Key and value are checked against the bytes left in the message.
//!
//! Bytes after the value are ignored, as in Kafka. Not here: the CRC, which the kernel's caller
//! checks if necessary.

use crate::cursor::Cursor;
use crate::item::{CREATE_TIME, Field, Item, LOG_APPEND_TIME, TIMESTAMP_TYPE_NONE};
use crate::layout::{self, MESSAGE_HEAD_SIZE_V0, MESSAGE_SIZE_MIN_V1, NO_TIMESTAMP, V0};
use crate::reason::Reason;

/// Reads a whole entry of magic 0 or 1. It has at least the size of a v0 message.
pub fn parse(entry: &[u8]) -> Result<Item<'_>, Reason> {
    let mut cursor = Cursor::new(entry);
    let head: &[u8; MESSAGE_HEAD_SIZE_V0] = cursor.array().map_err(|_| Reason::MessageTooSmall)?;
    let (offset, _) = prefix(head);
    let attributes = head[layout::ATTRIBUTES_AT_LEGACY];
    let (timestamp, timestamp_type) = if head[layout::MAGIC_AT] == V0 {
        (NO_TIMESTAMP, TIMESTAMP_TYPE_NONE)
    } else {
        if entry.len() - layout::PREFIX_SIZE < MESSAGE_SIZE_MIN_V1 as usize {
            return Err(Reason::MessageTooSmall);
        }
        let timestamp = cursor.array().map_err(|_| Reason::MessageTooSmall)?;
        let is_append_time = attributes & layout::LOG_APPEND_TIME != 0;
        let timestamp_type = if is_append_time { LOG_APPEND_TIME } else { CREATE_TIME };
        (i64::from_be_bytes(*timestamp), timestamp_type)
    };
    let key = field(&mut cursor, Reason::KeyRunsPastMessage)?;
    let value = field(&mut cursor, Reason::ValueRunsPastMessage)?;
    Ok(Item {
        offset,
        timestamp,
        timestamp_type,
        key,
        value,
        headers: &cursor.rest()[..0],
        headers_count: 0,
    })
}

/// The offset and the size at the beginning of every entry.
#[inline(always)]
pub fn prefix<const N: usize>(head: &[u8; N]) -> (i64, i32) {
    let offset = i64::from_be_bytes(bytes_at::<0, 8, N>(head));
    (offset, i32::from_be_bytes(bytes_at::<8, 4, N>(head)))
}

/// `SIZE` bytes from `AT` on.
#[inline(always)]
pub fn bytes_at<const AT: usize, const SIZE: usize, const N: usize>(head: &[u8; N]) -> [u8; SIZE] {
    const { assert!(AT + SIZE <= N) };
    let mut bytes = [0; SIZE];
    bytes.copy_from_slice(&head[AT..AT + SIZE]);
    bytes
}

fn field<'a>(cursor: &mut Cursor<'a>, past: Reason) -> Result<Field<'a>, Reason> {
    let size = i32::from_be_bytes(*cursor.array().map_err(|_| past)?).max(-1);
    let bytes = cursor.take(size.max(0) as usize).map_err(|_| past)?;
    Ok(Field { size, bytes })
}
