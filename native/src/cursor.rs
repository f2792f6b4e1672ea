//! Reads bytes forward. `take` returns exactly the requested number of bytes, or an error if there
//! are fewer.
//!
//! Sizes are compared with the number of bytes left, so no sum of a position and a size can wrap.

/// The bytes that have not been read yet. A copy of a cursor marks a place.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

/// Fewer bytes are left than were requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short;

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline(always)]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The bytes that `take` has not taken.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub fn take(&mut self, size: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.rest.split_at_checked(size).ok_or(Short)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline(always)]
    pub fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Short> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Short)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_is_there_and_stays_where_it_is_not() {
        let mut cursor = Cursor::new(b"abcde");
        assert_eq!(cursor.take(2), Ok(&b"ab"[..]));
        assert_eq!(cursor.take(usize::MAX), Err(Short));
        assert_eq!(cursor.array::<4>(), Err(Short));
        assert_eq!(cursor.left(), 3);
        assert_eq!(cursor.array(), Ok(b"cde"));
        assert_eq!(cursor.take(0), Ok(&b""[..]));
        assert_eq!(cursor.take(1), Err(Short));
    }
}
