//! The part of the source that is in memory, and how much there is in all.

/// `bytes` begin at the place reached; `remaining` counts them and what is behind them.
pub struct Window<'a> {
    pub bytes: &'a [u8],
    pub remaining: u64,
}

impl<'a> Window<'a> {
    /// A window that is longer than what remains ends with it.
    pub fn new(bytes: &'a [u8], remaining: u64) -> Self {
        let size = remaining.min(bytes.len() as u64) as usize;
        Self { bytes: &bytes[..size], remaining }
    }

    /// Goes on by `size` bytes of what remains, perhaps beyond the window.
    #[inline(always)]
    pub fn advance(&mut self, size: u64) {
        let inside = size.min(self.bytes.len() as u64) as usize;
        self.bytes = &self.bytes[inside..];
        self.remaining -= size;
    }
}
