//! A column of bytes: those of all rows one after the other, and where each row ends.

use super::bits::Bits;

/// A buffer that is filled to less than a part of this is made smaller before it is handed over.
const WASTE: usize = 2;

/// A column as it is filled.
pub struct Binary {
    ends: Vec<i32>,
    data: Vec<u8>,
    nulls: Bits,
}

/// A column that is complete, as Arrow has its buffers.
pub struct BinaryColumn {
    /// How many rows are null.
    pub nulls: usize,
    /// A bit for each row, the lowest first; 0 is null. None: no row is.
    pub validity: Option<Vec<u8>>,
    /// Where rows end in `data`, and before them a zero.
    pub ends: Vec<i32>,
    /// Bytes.
    pub data: Vec<u8>,
}

impl Binary {
    /// With room for as many rows and bytes.
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

    /// Adds a row. The caller sees to it that all rows together are no more than 2 GiB.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8], is_null: bool) {
        if is_null {
            self.nulls.differ(self.ends.len() - 1);
        } else {
            self.data.extend_from_slice(bytes);
        }
        self.ends.push(self.data.len() as i32);
    }

    /// Forgets all rows but the first ones.
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

/// Without most of the room that was not needed: whoever gets it may keep it long.
pub fn fitted<T>(mut filled: Vec<T>) -> Vec<T> {
    if filled.capacity() / WASTE > filled.len() {
        filled.shrink_to_fit();
    }
    filled
}
