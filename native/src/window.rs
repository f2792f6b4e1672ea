//! The part of the source that is in memory, and the number of bytes left in all.

use crate::outcome::Outcome;

/// `bytes` begin at the position reached; `remaining` counts them and those after the window.
pub struct Window<'a> {
    pub bytes: &'a [u8],
    pub remaining: u64,
}

impl<'a> Window<'a> {
    /// Bytes of the window after `remaining` are cut off.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], remaining: u64) -> Self {
        let size = remaining.min(bytes.len() as u64) as usize;
        Self { bytes: &bytes[..size], remaining }
    }

    /// The number of bytes after the window.
    #[inline(always)]
    pub fn beyond(&self) -> u64 {
        self.remaining - self.bytes.len() as u64
    }

    /// The first entry of `size` bytes, if it is whole in the window.
    #[inline(always)]
    pub fn whole(&self, size: u64) -> Result<&'a [u8], Outcome> {
        let size = usize::try_from(size).map_err(|_| Outcome::Source)?;
        self.bytes.get(..size).ok_or(Outcome::Source)
    }

    /// Moves forward by `size` of the remaining bytes, perhaps past the window's end.
    #[inline(always)]
    pub fn advance(&mut self, size: u64) {
        let inside = size.min(self.bytes.len() as u64) as usize;
        self.bytes = &self.bytes[inside..];
        self.remaining -= size;
    }
}
