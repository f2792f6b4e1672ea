//! The column of headers: a list of keys and values for each row.

use super::binary::{Binary, BinaryColumn, fitted};
use super::bits::Bits;
use crate::cursor::Cursor;
use crate::reason::Reason;
use crate::record::header;
use crate::rows::Refusal;

/// A bad byte of a key becomes the three of U+FFFD.
const GROWTH: usize = 3;
const TOO_LARGE: Refusal = "a column is larger than 2 GiB";

/// The column while it is filled. Rows after the last one with headers are not stored yet, because
/// most logs have no headers.
pub struct Lists {
    ends: Vec<i32>,
    present: Bits,
    keys: Binary,
    values: Binary,
}

/// The complete column.
pub struct ListColumn {
    /// The number of rows with headers.
    pub present: usize,
    /// A bit for each row, lowest bit first; 0 means no headers. None if no row has headers.
    pub validity: Option<Vec<u8>>,
    /// A zero, and then the end of each row among the headers.
    pub ends: Vec<i32>,
    /// Text. Invalid UTF-8 has become U+FFFD.
    pub keys: BinaryColumn,
    /// Bytes.
    pub values: BinaryColumn,
}

impl Lists {
    /// An empty column with the room of `like`, up to these numbers of headers and bytes.
    pub fn with_room_of(like: &Self, headers_max: usize, size_max: usize) -> Self {
        let headers = (like.end() as usize).min(headers_max);
        let column = |like: &Binary| Binary::new(headers, like.size().min(size_max));
        let mut ends = Vec::with_capacity(if headers == 0 { 1 } else { like.ends.len() });
        ends.push(0);
        let (keys, values) = (column(&like.keys), column(&like.values));
        Self { ends, present: Bits::zeros(), keys, values }
    }

    pub fn new() -> Self {
        let column = || Binary::new(0, 0);
        Self { ends: vec![0], present: Bits::zeros(), keys: column(), values: column() }
    }

    /// The bytes of all headers.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.keys.size() + self.values.size()
    }

    /// Adds the headers of a row that has some. After a refusal, `truncate` removes them.
    #[inline(never)]
    pub fn push(&mut self, row: usize, headers: &[u8], count: i32) -> Result<(), Refusal> {
        if headers.len() > (i32::MAX as usize - self.size()) / GROWTH {
            return Err(TOO_LARGE);
        }
        let mut end = self.end();
        self.ends.resize(row + 1, end);
        let mut headers = Cursor::new(headers);
        for _ in 0..count {
            let (key, value) = header(&mut headers).map_err(Reason::text)?;
            if key.is_ascii() {
                self.keys.push(key, false);
            } else {
                self.keys.push(String::from_utf8_lossy(key).as_bytes(), false);
            }
            self.values.push(value.unwrap_or_default(), value.is_none());
            end += 1;
        }
        self.ends.push(end);
        self.present.differ(row);
        Ok(())
    }

    /// Headers of all rows.
    fn end(&self) -> i32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Removes all rows but the first ones.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.present.truncate(rows);
        let headers = self.end() as usize;
        self.keys.truncate(headers);
        self.values.truncate(headers);
    }

    pub fn finish(mut self, rows: usize) -> ListColumn {
        self.ends.resize(rows + 1, self.end());
        ListColumn {
            present: self.present.differing(),
            validity: self.present.finish(rows),
            ends: fitted(self.ends),
            keys: self.keys.finish(),
            values: self.values.finish(),
        }
    }
}
