//! A column of bytes: the bytes of all rows one after the other, and the end of each row.

use super::bits::Bits;

/// A buffer that is filled to less than this fraction is shrunk before it is handed over.
const WASTE: usize = 2;

/// A column while it is filled.
pub struct Binary {
    ends: Vec<i32>,
    data: Vec<u8>,
    nulls: Bits,
}

/// A complete column, in the layout of Arrow's buffers.
pub struct BinaryColumn {
    /// The number of null rows.
    pub nulls: usize,
    /// A bit for each row, lowest bit first; 0 is null. None if no row is null.
    pub validity: Option<Vec<u8>>,
    /// A zero, and then the end of each row in `data`.
    pub ends: Vec<i32>,
    /// Bytes.
    pub data: Vec<u8>,
}

impl Binary {
    /// An empty column with room for this many rows and bytes.
    pub fn new(rows: usize, size: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self { ends, data: Vec::with_capacity(size), nulls: Bits::ones() }
    }

    /// The bytes of all rows.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.data.len()
    }

    /// Adds a row. The caller ensures that all rows together have at most 2 GiB.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8], is_null: bool) {
        if is_null {
            self.nulls.differ(self.ends.len() - 1);
        } else {
            self.data.extend_from_slice(bytes);
        }
        self.ends.push(self.data.len() as i32);
    }

    /// Removes all rows but the first ones.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.data.truncate(self.ends.last().map_or(0, |end| *end as usize));
        self.nulls.truncate(rows);
    }

    pub fn finish(self) -> BinaryColumn {
        let rows = self.ends.len() - 1;
        BinaryColumn {
            nulls: self.nulls.differing(),
            validity: self.nulls.finish(rows),
            ends: fitted(self.ends),
            data: fitted(self.data),
        }
    }
}

/// Shrinks a buffer that is mostly unused, because its new owner may keep it for long.
pub fn fitted<T>(mut filled: Vec<T>) -> Vec<T> {
    if filled.capacity() / WASTE > filled.len() {
        filled.shrink_to_fit();
    }
    filled
}
