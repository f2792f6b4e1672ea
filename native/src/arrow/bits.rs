//! A bit for each row, lowest bit first: Arrow's validity bitmap, which marks the rows that are not
//! null.

/// Bits that are nearly all the same. Only the bytes up to the last different bit are stored.
pub struct Bits {
    bytes: Vec<u8>,
    usual: u8,
    differing: usize,
}

impl Bits {
    /// All bits are one until they are inverted: for rows that are seldom null.
    pub fn ones() -> Self {
        Self { bytes: Vec::new(), usual: 0xff, differing: 0 }
    }

    /// All bits are zero until they are inverted: for rows that are usually null.
    pub fn zeros() -> Self {
        Self { usual: 0, ..Self::ones() }
    }

    /// The number of inverted bits.
    pub fn differing(&self) -> usize {
        self.differing
    }

    /// Inverts the bit of a row. The row must be after all rows whose bits were inverted before.
    pub fn differ(&mut self, row: usize) {
        self.bytes.resize(row / 8 + 1, self.usual);
        self.bytes[row / 8] ^= 1 << (row % 8);
        self.differing += 1;
    }

    /// Resets the bits from this row on.
    pub fn truncate(&mut self, rows: usize) {
        if self.bytes.len() * 8 <= rows {
            return;
        }
        self.bytes.truncate(rows.div_ceil(8));
        if let Some(last) = self.bytes.last_mut().filter(|_| !rows.is_multiple_of(8)) {
            let kept = (1 << (rows % 8)) - 1;
            *last = *last & kept | self.usual & !kept;
        }
        let differ = |byte: &u8| (byte ^ self.usual).count_ones() as usize;
        self.differing = self.bytes.iter().map(differ).sum();
    }

    /// The bits of all rows, and zeros up to the end of the last byte. None if all bits are the
    /// same.
    pub fn finish(mut self, rows: usize) -> Option<Vec<u8>> {
        if self.differing == 0 {
            return None;
        }
        self.bytes.resize(rows.div_ceil(8), self.usual);
        if let Some(last) = self.bytes.last_mut().filter(|_| !rows.is_multiple_of(8)) {
            *last &= (1 << (rows % 8)) - 1;
        }
        Some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn bits_are_what_was_said_of_each_row_whatever_was_forgotten() {
        for forgotten in 0..=20 {
            let (mut ones, mut zeros) = (Bits::ones(), Bits::zeros());
            for row in [0, 3, 7, 8, 18] {
                ones.differ(row);
                zeros.differ(row);
            }
            ones.truncate(forgotten);
            zeros.truncate(forgotten);
            let bits = [0, 3, 7, 8, 18].into_iter().filter(|row| *row < forgotten);
            let expected = bits.fold(0u32, |bits, row| bits | 1 << row);
            assert_eq!(ones.differing(), expected.count_ones() as usize);
            assert_eq!(zeros.differing(), ones.differing());
            let bytes = |bits: u32| bits.to_le_bytes()[..3].to_vec();
            let is_told = forgotten > 0;
            assert_eq!(zeros.finish(20), is_told.then(|| bytes(expected)));
            assert_eq!(ones.finish(20), is_told.then(|| bytes(!expected & 0xf_ffff)));
        }
    }
}
