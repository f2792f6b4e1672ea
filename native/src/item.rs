//! A record or message of any format, as the parser passes it to sinks.

/// A key or value. Null has a size of -1, and an empty slice at the position where its bytes would
/// be.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub size: i32,
    pub bytes: &'a [u8],
}

/// Without headers, `headers` is an empty slice at the position where they would be. The timestamp
/// type is a row's: 0 CreateTime, 1 LogAppendTime, -1 none.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    pub offset: i64,
    pub timestamp: i64,
    pub timestamp_type: i8,
    pub key: Field<'a>,
    pub value: Field<'a>,
    pub headers: &'a [u8],
    pub headers_count: i32,
}

pub const TIMESTAMP_TYPE_NONE: i8 = -1;
pub const CREATE_TIME: i8 = 0;
pub const LOG_APPEND_TIME: i8 = 1;
