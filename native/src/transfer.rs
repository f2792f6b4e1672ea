//! From a file to a channel, converted on the way, chunk after chunk.
//!
//! Not here: what has to be decided between two chunks (whoever calls), descriptors (`face`).

use std::io::{self, ErrorKind, Write};

use crate::outcome::Outcome;
use crate::transcoder::Transcoder;
use crate::workspace::{Workspace, room};

/// A chunk at least as large as this is read alone; of smaller ones two, since a read costs as much
/// as four kilobytes do.
const LARGE_CHUNK_SIZE: usize = 64 * 1024;

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

/// How far a transfer goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Where the conversion stands, and where it ends.
    pub position: u64,
    /// The same.
    pub end: u64,
    /// Of source, in bytes.
    pub chunk_size: usize,
    /// Not a byte more than this is written: what a chunk may become, so that no message is cut.
    pub promised: u64,
    /// No other chunk is begun once so much has been consumed, or written.
    pub budget: u64,
}

/// What has been done.
pub struct Transferred {
    /// Bytes of the source.
    pub consumed: u64,
    /// Bytes that the channel took.
    pub written: u64,
    /// Why it came back.
    pub outcome: Outcome,
    /// What the channel said, if it was not that it would block.
    pub error: Option<io::Error>,
}

/// The part of the source that is in memory.
struct Held {
    start: usize,
    filled: usize,
}

impl Transcoder {
    /// Converts and writes until the channel takes no more, a limit is reached, or something has to
    /// be decided. What the channel left of a chunk is `workspace.rest()`.
    pub fn transfer(
        &mut self,
        input: &Input<'_>,
        channel: &mut dyn Write,
        limits: &Limits,
        workspace: &mut Workspace,
    ) -> Transferred {
        let Workspace { window, target, rest, .. } = workspace;
        rest.clear();
        let mut done =
            Transferred { consumed: 0, written: 0, outcome: Outcome::Source, error: None };
        let chunk_size = limits.chunk_size;
        let window_size =
            if chunk_size < LARGE_CHUNK_SIZE { chunk_size.saturating_mul(2) } else { chunk_size };
        let Some(target) = room(target, chunk_size.saturating_mul(2)) else {
            return done;
        };
        let mut held = Held { start: 0, filled: 0 };
        let mut step = chunk_size;
        while limits.position + done.consumed < limits.end {
            let is_due = done.consumed.max(done.written) >= limits.budget;
            if is_due || done.written >= limits.promised {
                done.outcome = Outcome::Limit;
                return done;
            }
            let position = limits.position + done.consumed;
            let left = limits.end - position;
            let source = match input {
                Input::Mapped(bytes) => {
                    held = Held { start: position as usize, filled: bytes.len() };
                    bytes
                }
                Input::File(file) => {
                    let Some(window) = room(window, window_size) else {
                        return done;
                    };
                    if held.start >= held.filled {
                        // An error is met again by whoever is asked for what did not come.
                        let size = window_size.min(usize::try_from(left).unwrap_or(usize::MAX));
                        let read = file.read_at(&mut window[..size], position).unwrap_or(0);
                        held = Held { start: 0, filled: read };
                    }
                    &*window
                }
            };
            if held.start >= held.filled {
                return done;
            }
            let start = held.start;
            let stop = held.filled.min(start + step);
            let owed = usize::try_from(limits.promised - done.written).unwrap_or(usize::MAX);
            let room = owed.min(target.len());
            let progress = self.transcode(&source[start..stop], left, &mut target[..room]);
            let (consumed, produced) = (progress.consumed, progress.produced as usize);
            done.consumed += consumed;
            done.outcome = progress.outcome;
            held.start = start.saturating_add(consumed as usize);
            if produced > 0 && !write(channel, &target[..produced], rest, &mut done) {
                return done;
            }
            let tried = std::mem::replace(&mut step, chunk_size);
            match progress.outcome {
                Outcome::Source if consumed > 0 => {
                    let is_at_end = stop == held.filled;
                    if is_at_end {
                        held = Held { start: 0, filled: 0 }; // what is left is read again
                    }
                }
                Outcome::Source if stop < held.filled && tried < window_size => step = window_size,
                Outcome::Source if start > 0 && matches!(input, Input::File(_)) => {
                    held = Held { start: 0, filled: 0 };
                }
                Outcome::Target if produced > 0 => {}
                _ => return done,
            }
        }
        done.outcome = Outcome::End;
        done
    }
}

/// Writes a chunk. False: the channel did not take all of it.
fn write(
    channel: &mut dyn Write,
    chunk: &[u8],
    rest: &mut Vec<u8>,
    done: &mut Transferred,
) -> bool {
    let taken = match channel.write(chunk) {
        Ok(taken) => taken.min(chunk.len()),
        Err(error) => {
            done.error = (error.kind() != ErrorKind::WouldBlock).then_some(error);
            0
        }
    };
    done.written += taken as u64;
    if taken == chunk.len() {
        return true;
    }
    rest.extend_from_slice(&chunk[taken..]);
    done.outcome = Outcome::Channel;
    false
}
