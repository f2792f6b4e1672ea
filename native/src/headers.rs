//! Reads the headers of a v2 record one after the other. They have been checked before.
//!
//! Not here: checking them (`record`), and finding them by a row (`rows`).

use crate::cursor::Cursor;
use crate::rows::Refusal;
use crate::varint;

const NOT_HEADERS: Refusal = "these are no headers";

/// Reads a header: its key, and its value, which may be null.
pub fn next_header<'a>(headers: &mut Cursor<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), Refusal> {
    let size = varint::read_i32(headers).map_err(|_| NOT_HEADERS)?;
    let size = usize::try_from(size).map_err(|_| NOT_HEADERS)?;
    let key = headers.take(size).map_err(|_| NOT_HEADERS)?;
    let size = varint::read_i32(headers).map_err(|_| NOT_HEADERS)?;
    let Ok(size) = usize::try_from(size) else {
        return Ok((key, None));
    };
    Ok((key, Some(headers.take(size).map_err(|_| NOT_HEADERS)?)))
}
