//! A log that is read at positions, or mapped, and the part of it that is in memory.
//!
//! Not here: what a call sees of it (`window`), descriptors (`python`).

use std::io;

use crate::workspace::room;

/// What is converted: bytes of a log, by their position.
pub enum Input<'a> {
    /// Mapped into memory, all of it.
    Mapped(&'a [u8]),
    /// Read into a window.
    File(&'a dyn ReadAt),
}

/// Positional reading.
pub trait ReadAt: Sync {
    /// Reads at a position into the window; the bytes read, 0 at the end.
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
    /// Nothing is in memory yet. `window`: the buffer that files are read into.
    pub fn new(input: &'b Input<'a>, window: &'b mut Vec<u8>) -> Self {
        Self { input, window, start: 0, filled: 0 }
    }

    /// Reads up to `size` bytes if there are none. An error leaves the window empty: the caller
    /// reads the same place, and meets it again.
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

    /// Forgets what is in memory: `fill` reads again.
    pub fn drop(&mut self) {
        self.start = 0;
        self.filled = 0;
    }

    /// Passes so many bytes.
    pub fn advance(&mut self, size: u64) {
        self.start = self.start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
    }

    /// What is in memory and has not been passed.
    pub fn rest(&self) -> &[u8] {
        let bytes = match self.input {
            Input::Mapped(bytes) => bytes,
            Input::File(_) => self.window.as_slice(),
        };
        bytes.get(self.start..self.filled).unwrap_or_default()
    }

    /// Whether nothing of what was read last has been passed.
    pub fn is_at_its_start(&self) -> bool {
        self.start == 0
    }

    /// Whether it has to be read: a window is not all that there is.
    pub fn is_read(&self) -> bool {
        matches!(self.input, Input::File(_))
    }
}
