//! A log that is read by position, or mapped, and the part of it that is in memory.
//!
//! Not here: a call's view of it (`window`), descriptors (`python`).

use std::io;

use crate::workspace::room;

/// The source of a conversion: bytes of a log, by their position.
pub enum Input<'a> {
    /// The whole log, mapped into memory.
    Mapped(&'a [u8]),
    /// Read into a window.
    File(&'a dyn ReadAt),
}

/// Positional reading.
pub trait ReadAt: Sync {
    /// Reads at a position into the window. Returns the bytes read, 0 at the end.
    fn read_at(&self, window: &mut [u8], position: u64) -> io::Result<usize>;
}

/// The part of the source that is in memory, from the position reached on.
pub struct LogWindow<'a, 'b> {
    input: &'b Input<'a>,
    window: &'b mut Vec<u8>,
    start: usize,
    filled: usize,
}

impl<'a, 'b> LogWindow<'a, 'b> {
    /// A log without any bytes in memory yet. `window`: the buffer that files are read into.
    pub fn new(input: &'b Input<'a>, window: &'b mut Vec<u8>) -> Self {
        Self { input, window, start: 0, filled: 0 }
    }

    /// Reads up to `size` bytes if the window is empty. An error leaves it empty: the caller then
    /// reads the same place, and meets the error itself.
    pub fn fill(&mut self, position: u64, size: usize, left: u64) {
        match self.input {
            Input::Mapped(bytes) => {
                self.start = position as usize;
                self.filled = bytes.len();
            }
            Input::File(file) => {
                if self.start < self.filled {
                    return;
                }
                let size = size.min(usize::try_from(left).unwrap_or(usize::MAX));
                let read = room(self.window, size).map(|window| file.read_at(window, position));
                self.start = 0;
                self.filled = read.and_then(Result::ok).unwrap_or(0);
            }
        }
    }

    /// Reads again if fewer than `size` bytes are in memory.
    pub fn need(&mut self, position: u64, size: usize, left: u64) {
        if self.rest().len() < size {
            self.drop();
            self.fill(position, size, left);
        }
    }

    /// Drops the bytes in memory. `fill` reads again.
    pub fn drop(&mut self) {
        self.start = 0;
        self.filled = 0;
    }

    /// Passes `size` bytes.
    pub fn advance(&mut self, size: u64) {
        self.start = self.start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
    }

    /// The bytes in memory that have not been passed.
    pub fn rest(&self) -> &[u8] {
        let bytes = match self.input {
            Input::Mapped(bytes) => bytes,
            Input::File(_) => self.window.as_slice(),
        };
        bytes.get(self.start..self.filled).unwrap_or_default()
    }

    /// Whether none of the bytes of the last read has been passed.
    pub fn is_at_its_start(&self) -> bool {
        self.start == 0
    }

    /// Whether the log has to be read, so that the window is only a part of it.
    pub fn is_read(&self) -> bool {
        matches!(self.input, Input::File(_))
    }
}
