//! The target of messages: a channel, memory, or a counter of their size.
//!
//! Not here: converting (`advance`), descriptors (`python`).

use std::io::{self, ErrorKind, Write};

use crate::advance::Limits;
use crate::outcome::Progress;
use crate::transcoder::Transcoder;
use crate::workspace;

/// The maximum size of chunks that are written together. Each write wakes the reader. On one
/// processor, reader and sender would alternate after each chunk, which costs more than a small
/// conversion.
const GATHERED_MAX: usize = 128 * 1024;

/// A channel that takes bytes.
pub trait Channel: Write + Send {
    /// Bytes that the channel would take in one write, if it knows; else None.
    fn room(&self) -> Option<usize> {
        None
    }
}

/// The target of messages.
pub enum Target<'a> {
    /// Messages are written to the channel.
    Channel(&'a mut dyn Channel),
    /// Messages are kept in `workspace.rest()`.
    Memory,
    /// Only the size of messages is counted.
    Counter,
}

/// Messages on their way to a target. Several chunks are written at once if the channel has room
/// for all of them. So usually at most one chunk is left to the caller.
pub struct Outlet<'a, 'b> {
    target: Target<'b>,
    chunks: &'a mut [u8],
    filled: usize,
    /// Bytes that the channel would take after the last write, if it knows and it matters.
    room: Option<usize>,
    /// Bytes of source in a chunk.
    chunk_size: usize,
    rest: &'a mut Vec<u8>,
    /// Bytes that the target took.
    pub written: u64,
    /// The channel's error, unless it would only have blocked.
    pub error: Option<io::Error>,
}

impl<'a, 'b> Outlet<'a, 'b> {
    /// None if there is not enough memory for the chunks.
    pub fn new(
        target: Target<'b>,
        chunks: &'a mut Vec<u8>,
        rest: &'a mut Vec<u8>,
        &Limits { chunk_size, budget, .. }: &Limits,
    ) -> Option<Self> {
        rest.clear();
        let is_alone = budget <= chunk_size as u64; // the first chunk uses up the budget
        let (room, size) = match &target {
            Target::Channel(channel) if !is_alone => (channel.room(), chunk_size.saturating_mul(2)),
            Target::Channel(_) | Target::Memory => (None, chunk_size.saturating_mul(2)),
            Target::Counter => (None, 0),
        };
        let gathered = if room.is_some() { GATHERED_MAX } else { 0 };
        let chunks = workspace::room(chunks, size.saturating_add(gathered))?;
        Some(Self { target, chunks, filled: 0, room, chunk_size, rest, written: 0, error: None })
    }

    /// Bytes that are written at once: the channel's room, without the part that the channel may
    /// need for itself. There is always room for one more chunk.
    fn at_once(&self) -> usize {
        let free = self.room.map_or(0, |free| free - free / 4);
        free.min(self.chunks.len().saturating_sub(self.chunk_size.saturating_mul(2)))
    }

    /// Whether messages are only counted.
    pub fn counts(&self) -> bool {
        matches!(self.target, Target::Counter)
    }

    /// Bytes that the channel would still take, if known.
    pub fn room(&self) -> usize {
        self.room.unwrap_or(usize::MAX).saturating_sub(self.filled)
    }

    /// Bytes made so far.
    pub fn produced(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Converts a chunk to at most `size_max` bytes of messages. `add` takes them.
    pub fn convert(
        &mut self,
        transcoder: &mut Transcoder,
        chunk: &[u8],
        left: u64,
        size_max: u64,
    ) -> Progress {
        if self.counts() {
            return transcoder.measure(chunk, left, size_max);
        }
        let size_max = usize::try_from(size_max).unwrap_or(usize::MAX);
        let size = size_max.min(self.chunk_size.saturating_mul(2));
        transcoder.transcode(chunk, left, &mut self.chunks[self.filled..][..size])
    }

    /// Takes `size` bytes of messages. False if the channel did not take all of a write.
    pub fn add(&mut self, size: u64) -> bool {
        if self.counts() {
            self.written += size;
            return true;
        }
        self.filled += size as usize;
        self.filled.saturating_add(self.chunk_size) < self.at_once() || self.flush()
    }

    /// Takes messages from another buffer. It takes all of them, even if the channel does not take
    /// the earlier ones.
    pub fn put(&mut self, messages: &[u8]) -> bool {
        if self.counts() {
            return self.add(messages.len() as u64);
        }
        if self.filled + messages.len() > self.at_once() && !self.flush() {
            self.rest.extend_from_slice(messages);
            return false;
        }
        if messages.len() > self.at_once() {
            return self.write(messages);
        }
        self.chunks[self.filled..][..messages.len()].copy_from_slice(messages);
        self.filled += messages.len();
        true
    }

    /// Writes the gathered chunks. False if the channel did not take all of them.
    pub fn flush(&mut self) -> bool {
        let chunks = std::mem::take(&mut self.chunks);
        let is_taken = self.write(&chunks[..self.filled]);
        self.chunks = chunks;
        self.filled = 0;
        is_taken
    }

    fn write(&mut self, messages: &[u8]) -> bool {
        let channel = match &mut self.target {
            Target::Channel(channel) if !messages.is_empty() => channel,
            Target::Memory => {
                self.written += messages.len() as u64;
                self.rest.extend_from_slice(messages);
                return true;
            }
            _ => return true, // nothing to write
        };
        let taken = match channel.write(messages) {
            Ok(taken) => taken.min(messages.len()),
            Err(error) => {
                self.error = (error.kind() != ErrorKind::WouldBlock).then_some(error);
                0
            }
        };
        self.room = self.room.and_then(|_| channel.room());
        self.written += taken as u64;
        self.rest.extend_from_slice(&messages[taken..]);
        taken == messages.len()
    }
}
