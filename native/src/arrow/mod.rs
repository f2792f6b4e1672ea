//! Columns in Arrow's layout, filled record by record in one pass over the log.
//!
//! Not here: finding records (`transcoder`), whole entries (`read`), Arrow itself
//! (downconvert/spark).

mod binary;
mod bits;
mod lists;

pub use binary::BinaryColumn;
use binary::{Binary, fitted};
pub use lists::ListColumn;
use lists::Lists;

use crate::header::Header;
use crate::item::{CREATE_TIME, Field, Item, LOG_APPEND_TIME, TIMESTAMP_TYPE_NONE};
use crate::layout::{ROW_SIZE, V1};
use crate::outcome::Outcome;
use crate::rows::{self, Refusal};
use crate::sink::Sink;

/// Columns always have room for this many rows, if that many are allowed.
const ROWS_MIN: usize = 8192;
const NO_TYPE: Refusal = "there is no such timestamp type";

/// Which columns are filled besides offsets and timestamps.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Fields {
    pub keys: bool,
    pub values: bool,
    pub headers: bool,
}

/// The wanted records: inclusive ranges of offsets and of timestamps in milliseconds.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Bounds {
    pub first_offset: i64,
    pub last_offset: i64,
    pub first_timestamp: i64,
    pub last_timestamp: i64,
}

impl Bounds {
    /// Every record is wanted.
    pub const NONE: Self = Self {
        first_offset: i64::MIN,
        last_offset: i64::MAX,
        first_timestamp: i64::MIN,
        last_timestamp: i64::MAX,
    };

    #[inline(always)]
    fn hold(&self, item: &Item<'_>) -> bool {
        self.first_offset <= item.offset
            && item.offset <= self.last_offset
            && self.first_timestamp <= item.timestamp
            && item.timestamp <= self.last_timestamp
    }
}

/// Columns while they are filled, up to a number of rows and of bytes. A single row may have more
/// bytes.
pub struct ArrowColumns {
    rows_max: usize,
    bytes_max: usize,
    wanted: Fields,
    bounds: Bounds,
    filling: Filling,
    /// Whether the last record did not fit.
    is_full: bool,
    /// Why the last record could not become a row.
    refused: Option<Refusal>,
}

/// The complete columns. Unwanted ones are None.
pub struct Taken {
    /// Offsets of the records.
    pub offsets: Vec<i64>,
    /// In milliseconds.
    pub timestamps: Vec<i64>,
    /// 0 CreateTime, 1 LogAppendTime, -1 none.
    pub timestamp_types: Vec<i32>,
    /// Keys.
    pub keys: Option<BinaryColumn>,
    /// Values.
    pub values: Option<BinaryColumn>,
    /// Headers.
    pub headers: Option<ListColumn>,
}

struct Filling {
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    timestamp_types: Vec<i32>,
    keys: Binary,
    values: Binary,
    headers: Lists,
}

impl Filling {
    /// Empty columns with room for this many rows, and bytes of keys and values.
    fn new(rows: usize, keys: usize, values: usize) -> Self {
        let rows = rows.min(ROWS_MIN);
        Self {
            offsets: Vec::with_capacity(rows),
            timestamps: Vec::with_capacity(rows),
            timestamp_types: Vec::with_capacity(rows),
            keys: Binary::new(rows, keys),
            values: Binary::new(rows, values),
            headers: Lists::new(),
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows);
        self.timestamps.truncate(rows);
        self.timestamp_types.truncate(rows);
        self.keys.truncate(rows);
        self.values.truncate(rows);
        self.headers.truncate(rows);
    }
}

impl ArrowColumns {
    /// Columns of at most `rows_max` rows and `bytes_max` bytes. (A single record may have more.)
    /// None if `rows_max` is 0, or `bytes_max` is more than an Arrow column can have.
    pub fn new(rows_max: usize, bytes_max: usize, wanted: Fields, bounds: Bounds) -> Option<Self> {
        i32::try_from(bytes_max).ok()?;
        let filling = Filling::new(rows_max, 0, 0);
        (rows_max > 0).then_some(Self {
            rows_max,
            bytes_max,
            wanted,
            bounds,
            filling,
            is_full: false,
            refused: None,
        })
    }

    /// The number of rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.filling.offsets.len()
    }

    /// Whether the last record did not fit. `truncate` and `take` make room.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether a compressed batch may have records that are wanted.
    pub(crate) fn want(&self, header: &Header) -> bool {
        let Bounds { first_offset, last_offset, first_timestamp, .. } = self.bounds;
        !header.ends_before(first_offset)
            && header.base_offset <= last_offset
            && header.max_timestamp >= first_timestamp
    }

    /// Removes all rows but the first ones.
    pub fn truncate(&mut self, rows: usize) {
        self.filling.truncate(rows);
        (self.is_full, self.refused) = (false, None);
    }

    /// Adds as many rows as fit. Returns the number of rows read. After a refusal, no row has been
    /// added.
    pub fn add_rows(&mut self, rows: &[[u8; ROW_SIZE]], source: &[u8]) -> Result<usize, Refusal> {
        let before = self.rows();
        let added = self.add_some(rows, source);
        if added.is_err() {
            self.truncate(before);
        }
        added
    }

    fn add_some(&mut self, rows: &[[u8; ROW_SIZE]], source: &[u8]) -> Result<usize, Refusal> {
        for (read, row) in rows.iter().enumerate() {
            if self.put(&item_of(row, source)?, 0).is_err() {
                return self.refused.map_or(Ok(read), Err);
            }
        }
        Ok(rows.len())
    }

    /// Returns the columns and empties them. The next columns get as much room as these needed.
    pub fn take(&mut self) -> Taken {
        let Filling { keys, values, .. } = &self.filling;
        let room = |size: usize| (size + size / 8).min(self.bytes_max);
        let mut next = Filling::new(self.rows_max, room(keys.size()), room(values.size()));
        next.headers = Lists::with_room_of(&self.filling.headers, ROWS_MIN, self.bytes_max);
        let filled = std::mem::replace(&mut self.filling, next);
        let Fields { keys, values, headers } = self.wanted;
        let rows = filled.offsets.len();
        self.is_full = false;
        Taken {
            offsets: fitted(filled.offsets),
            timestamps: fitted(filled.timestamps),
            timestamp_types: fitted(filled.timestamp_types),
            keys: keys.then(|| filled.keys.finish()),
            values: values.then(|| filled.values.finish()),
            headers: headers.then(|| filled.headers.finish(rows)),
        }
    }
}

impl Sink for ArrowColumns {
    const CONVERTS: bool = false;
    const MAGIC: u8 = V1; // none
    const READS_ALL: bool = true;

    #[inline(always)]
    fn put(&mut self, item: &Item<'_>, _: i64) -> Result<usize, Outcome> {
        if !self.bounds.hold(item) {
            return Ok(0);
        }
        let Self { wanted, filling, .. } = self;
        let row = filling.offsets.len();
        let has_headers = wanted.headers && item.headers_count != 0;
        let more = bytes_of(item.key, wanted.keys)
            + bytes_of(item.value, wanted.values)
            + if has_headers { item.headers.len() } else { 0 };
        let used = filling.keys.size() + filling.values.size() + filling.headers.size();
        if row == self.rows_max || (row > 0 && used + more > self.bytes_max) {
            self.is_full = true;
            return Err(Outcome::Target);
        }
        if has_headers {
            let added = filling.headers.push(row, item.headers, item.headers_count);
            if let Err(refusal) = added {
                filling.headers.truncate(row);
                self.refused = Some(refusal);
                return Err(Outcome::Target);
            }
        }
        filling.offsets.push(item.offset);
        filling.timestamps.push(item.timestamp);
        filling.timestamp_types.push(i32::from(item.timestamp_type));
        if wanted.keys {
            filling.keys.push(item.key.bytes, item.key.size < 0);
        }
        if wanted.values {
            filling.values.push(item.value.bytes, item.value.size < 0);
        }
        Ok(1)
    }

    /// Never called: entries are copied only by a conversion.
    fn copy(&mut self, _: &[u8]) -> Result<(), Outcome> {
        Err(Outcome::Batch)
    }

    fn produced(&self) -> u64 {
        self.rows() as u64
    }
}

#[inline(always)]
fn bytes_of(field: Field<'_>, is_wanted: bool) -> usize {
    if is_wanted { field.bytes.len() } else { 0 }
}

fn item_of<'a>(row: &[u8; ROW_SIZE], source: &'a [u8]) -> Result<Item<'a>, Refusal> {
    let fields = rows::fields(row);
    let (headers, headers_count) = rows::headers_of(&fields, source)?;
    let kinds = [TIMESTAMP_TYPE_NONE, CREATE_TIME, LOG_APPEND_TIME];
    let kind = kinds.into_iter().find(|kind| i64::from(*kind) == fields[2]);
    Ok(Item {
        offset: fields[0],
        timestamp: fields[1],
        timestamp_type: kind.ok_or(NO_TYPE)?,
        key: rows::field_of(source, fields[3], fields[4])?,
        value: rows::field_of(source, fields[5], fields[6])?,
        headers,
        headers_count,
    })
}
