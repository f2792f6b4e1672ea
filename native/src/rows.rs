//! Rows of ten numbers, as `columns` writes them. Callers pass them back, so their positions are
//! checked against the source.
//!
//! Not here: writing them (`sink::rows`) and using them (`encode`, `arrow`, `python::records`).

use crate::item::Field;
use crate::layout::{ROW_FIELDS, ROW_SIZE};

/// Why rows cannot be used.
pub type Refusal = &'static str;

const ROWS: Refusal = "rows are not whole";
const POSITION: Refusal = "a position is outside of the source";
const HEADER_COUNT: Refusal = "a header count is no 32-bit integer";
pub const TOO_LARGE: Refusal = "a record is too large";

/// Bytes as rows.
pub fn of(bytes: &[u8]) -> Result<&[[u8; ROW_SIZE]], Refusal> {
    let (rows, rest) = bytes.as_chunks::<ROW_SIZE>();
    if rest.is_empty() { Ok(rows) } else { Err(ROWS) }
}

#[inline(always)]
pub fn fields(row: &[u8; ROW_SIZE]) -> [i64; ROW_FIELDS] {
    let (fields, _) = row.as_chunks();
    std::array::from_fn(|index| i64::from_ne_bytes(fields[index]))
}

/// A key or value. Negative sizes are null. The position does not matter then.
#[inline(always)]
pub fn field_of(source: &[u8], at: i64, size: i64) -> Result<Field<'_>, Refusal> {
    if size < 0 {
        return Ok(Field { size: -1, bytes: &[] });
    }
    let bytes = part(source, at, size)?;
    let size = i32::try_from(size).map_err(|_| TOO_LARGE)?;
    Ok(Field { size, bytes })
}

/// A row's headers, and their count.
#[inline(always)]
pub fn headers_of<'a>(
    fields: &[i64; ROW_FIELDS],
    source: &'a [u8],
) -> Result<(&'a [u8], i32), Refusal> {
    let [.., headers_at, headers_size, headers_count] = *fields;
    let headers = part(source, headers_at, headers_size)?;
    let count = i32::try_from(headers_count).ok().filter(|count| *count >= 0);
    Ok((headers, count.ok_or(HEADER_COUNT)?))
}

#[inline(always)]
pub fn part(source: &[u8], at: i64, size: i64) -> Result<&[u8], Refusal> {
    let at = usize::try_from(at).map_err(|_| POSITION)?;
    let size = usize::try_from(size).map_err(|_| POSITION)?;
    source.get(at..).and_then(|rest| rest.get(..size)).ok_or(POSITION)
}
