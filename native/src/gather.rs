//! Rows to columns as Arrow lays them out: the bytes of all rows one after the other, where each
//! of them ends, and a bit for each that is not null.
//!
//! Not here: offsets and timestamps, which are columns of rows already (downconvert/spark).

use crate::cursor::Cursor;
use crate::rows::{self, Refusal};
use crate::varint;

const NO_ROOM: Refusal = "the targets have no room for these rows";
const NOT_HEADERS: Refusal = "these are no headers";
const TOO_LARGE: Refusal = "a column is larger than 2 GiB";

/// Which field of rows: where its position is in a row.
#[derive(Clone, Copy)]
pub enum Column {
    /// Keys.
    Key = 3,
    /// Values.
    Value = 5,
}

/// Where a column is written. `ends` has a 32-bit integer more than there are rows; `validity` a
/// bit for each.
pub struct Targets<'a> {
    /// Where rows end in `data`, and before them a zero.
    pub ends: &'a mut [u8],
    /// A bit for each row, the lowest first; 0 is null.
    pub validity: &'a mut [u8],
    /// Bytes.
    pub data: &'a mut [u8],
}

/// Writes a column of keys or values. Returns the bytes written and the number of nulls.
pub fn gather_column(
    rows: &[u8],
    source: &[u8],
    column: Column,
    targets: Targets<'_>,
) -> Result<(usize, usize), Refusal> {
    let rows = rows::of(rows)?;
    let Targets { ends, validity, data } = targets;
    let (ends, _) = ends.as_chunks_mut::<4>();
    let ends = ends.get_mut(..=rows.len()).ok_or(NO_ROOM)?;
    let validity = validity.get_mut(..rows.len().div_ceil(8)).ok_or(NO_ROOM)?;
    let (zero, ends) = ends.split_first_mut().ok_or(NO_ROOM)?;
    *zero = [0; 4];
    let (mut used, mut nulls) = (0, 0);
    for ((rows, ends), valid) in rows.chunks(8).zip(ends.chunks_mut(8)).zip(validity) {
        *valid = 0;
        for (bit, (row, end)) in rows.iter().zip(ends).enumerate() {
            let row = rows::fields(row);
            let field = rows::field_of(source, row[column as usize], row[column as usize + 1])?;
            let room = data.get_mut(used..).and_then(|data| data.get_mut(..field.bytes.len()));
            room.ok_or(NO_ROOM)?.copy_from_slice(field.bytes);
            used += field.bytes.len();
            *end = end_of(used)?;
            *valid |= u8::from(field.size >= 0) << bit;
            nulls += usize::from(field.size < 0);
        }
    }
    Ok((used, nulls))
}

fn end_of(size: usize) -> Result<[u8; 4], Refusal> {
    i32::try_from(size).map(i32::to_ne_bytes).map_err(|_| TOO_LARGE)
}

/// The headers of rows: keys and values of all of them, one after the other.
pub struct Headers {
    /// Where rows end among the headers, and before them a zero; 32-bit integers.
    pub ends: Vec<u8>,
    /// Of keys, in `keys`, as in `Targets`.
    pub key_ends: Vec<u8>,
    /// Text. Bytes that are no UTF-8 have become U+FFFD.
    pub keys: Vec<u8>,
    /// Of values, in `values`.
    pub value_ends: Vec<u8>,
    /// Bytes.
    pub values: Vec<u8>,
    /// A bit for each value, as in `Targets`.
    pub validity: Vec<u8>,
}

/// Reads the headers of rows.
pub fn gather_headers(rows: &[u8], source: &[u8]) -> Result<Headers, Refusal> {
    let zero = || vec![0; 4];
    let mut found = Headers {
        ends: zero(),
        key_ends: zero(),
        keys: Vec::new(),
        value_ends: zero(),
        values: Vec::new(),
        validity: Vec::new(),
    };
    let mut total = 0;
    for row in rows::of(rows)? {
        let (headers, count) = rows::headers_of(&rows::fields(row), source)?;
        let mut headers = Cursor::new(headers);
        for _ in 0..count {
            let (key, value) = next_header(&mut headers)?;
            match str::from_utf8(key) {
                Ok(_) => found.keys.extend_from_slice(key),
                Err(_) => found.keys.extend_from_slice(String::from_utf8_lossy(key).as_bytes()),
            }
            found.values.extend_from_slice(value.unwrap_or_default());
            found.key_ends.extend_from_slice(&end_of(found.keys.len())?);
            found.value_ends.extend_from_slice(&end_of(found.values.len())?);
            if total % 8 == 0 {
                found.validity.push(0);
            }
            if let Some(last) = found.validity.last_mut() {
                *last |= u8::from(value.is_some()) << (total % 8);
            }
            total += 1;
        }
        found.ends.extend_from_slice(&end_of(total)?);
    }
    Ok(found)
}

/// Reads a header that the kernel has checked.
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
