//! One v2 record. Each field is checked against the bytes left in the record.
//!
//! Not here: ordinary records, which are read faster (`fast_path`), the bases of deltas, and which
//! records are kept (`batch`).

use crate::cursor::Cursor;
use crate::item::Field;
use crate::reason::Reason;
use crate::varint::{self, Fault};

/// The fields before the key. A negative key size means null.
pub struct Head {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key_size: i32,
}

pub struct Record<'a> {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Field<'a>,
    pub value: Field<'a>,
    pub headers: &'a [u8],
    pub headers_count: i32,
}

/// Reads the fields before the key.
#[inline(always)]
pub fn head(body: &mut Cursor<'_>) -> Result<Head, Fault> {
    let [_attributes] = body.array().map_err(|_| Fault::Short)?;
    Ok(Head {
        timestamp_delta: varint::read_i64(body)?,
        offset_delta: varint::read_i32(body)?,
        key_size: varint::read_i32(body)?,
    })
}

/// Reads a whole record. `body`: the bytes after the size field.
pub fn parse(body: &[u8]) -> Result<Record<'_>, Reason> {
    let mut body = Cursor::new(body);
    let Head { timestamp_delta, offset_delta, key_size } = head(&mut body).map_err(in_body)?;
    let key = field(&mut body, key_size, Reason::KeyRunsPastRecord)?;
    let value_size = varint::read_i32(&mut body).map_err(in_body)?;
    let value = field(&mut body, value_size, Reason::ValueRunsPastRecord)?;
    let headers_count = varint::read_i32(&mut body).map_err(in_body)?;
    let headers = body.rest();
    check_headers(headers, headers_count)?;
    Ok(Record { timestamp_delta, offset_delta, key, value, headers, headers_count })
}

/// The damage of a record that has no valid varint at this place.
#[inline(always)]
pub fn in_body(fault: Fault) -> Reason {
    match fault {
        Fault::Short => Reason::RecordEndsEarly,
        Fault::TooLong => Reason::VarintTooLong,
    }
}

#[inline(always)]
fn field<'a>(body: &mut Cursor<'a>, size: i32, past: Reason) -> Result<Field<'a>, Reason> {
    let bytes = body.take(size.max(0) as usize).map_err(|_| past)?;
    let size = size.max(-1);
    Ok(Field { size, bytes })
}

/// Checks the `count` headers at the end of a record.
pub fn check_headers(headers: &[u8], count: i32) -> Result<(), Reason> {
    let mut body = Cursor::new(headers);
    let count = usize::try_from(count).map_err(|_| Reason::NegativeHeaderCount)?;
    if count > body.left() {
        return Err(Reason::MoreHeadersThanBytes);
    }
    for _ in 0..count {
        header(&mut body)?;
    }
    if body.left() != 0 {
        return Err(Reason::BytesAfterFields);
    }
    Ok(())
}

/// Reads a header: its key, and its value, which may be null.
pub fn header<'a>(headers: &mut Cursor<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), Reason> {
    let size = varint::read_i32(headers).map_err(in_body)?;
    if size < 0 {
        return Err(Reason::HeaderKeyNull);
    }
    let key = field(headers, size, Reason::HeaderKeyRunsPastRecord)?;
    let size = varint::read_i32(headers).map_err(in_body)?;
    let value = field(headers, size, Reason::HeaderValueRunsPastRecord)?;
    Ok((key.bytes, (value.size >= 0).then_some(value.bytes)))
}
