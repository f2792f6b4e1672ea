//! Converts from a file to a target, chunk after chunk.
//!
//! Not here: decisions between two chunks (the caller's), where messages go (`target`).

use std::io;

use crate::layout::{
    ATTRIBUTES_AT_BATCH, BATCH_HEADER_SIZE, CODEC_MASK, CONTROL, MAGIC_AT, PREFIX_SIZE,
    TRANSACTIONAL, V2,
};
use crate::log_window::{Input, LogWindow};
use crate::message;
use crate::outcome::Outcome;
use crate::target::{Outlet, Target};
use crate::transcoder::Transcoder;
use crate::workspace::{Recoding, Sending, Workspace, with_copy};

/// An item may be as large as one chunk if chunks have this size or more, else as large as two
/// chunks.
const LARGE_CHUNK_SIZE: usize = 64 * 1024;

/// The maximum size of a read. A system call costs as much as copying 4 KiB, so reads should be
/// large. More than this would not fit in the processor's second-level cache beside the chunks.
const READ_SIZE_MAX: usize = 128 * 1024;

/// A call ends after it has decompressed this many times its budget, because a small batch may
/// expand to as much as a large one.
const EXPANSION_MAX: u64 = 8;

/// How far a call goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The position reached.
    pub position: u64,
    /// The end of the range.
    pub end: u64,
    /// Bytes of source.
    pub chunk_size: usize,
    /// The room for chunks: at most this many bytes are made, and no message is cut.
    pub room: u64,
    /// No other chunk is begun after this many bytes have been consumed or made, or eight times as
    /// many have been decompressed.
    pub budget: u64,
}

/// The progress of a call.
pub struct Advanced {
    /// Bytes of the source.
    pub consumed: u64,
    /// Bytes that the target took.
    pub written: u64,
    /// Why the call returned.
    pub outcome: Outcome,
    /// The channel's error, unless it would only have blocked.
    pub error: Option<io::Error>,
}

impl Transcoder {
    /// Converts until the target takes no more, a limit is reached, or a decision is needed.
    /// `workspace.rest()` has the bytes that a channel did not take.
    pub fn advance(
        &mut self,
        input: &Input<'_>,
        target: Target<'_>,
        limits: &Limits,
        workspace: &mut Workspace,
    ) -> Advanced {
        let Workspace { recoding, sending } = workspace;
        let Sending { window, target: chunks, rest } = sending;
        let log = LogWindow::new(input, window);
        let Some(mut outlet) = Outlet::new(target, chunks, rest, limits) else {
            return Advanced { consumed: 0, written: 0, outcome: Outcome::Source, error: None };
        };
        let (consumed, mut outcome) = self.convert(log, limits, recoding, &mut outlet);
        if !outlet.flush() {
            outcome = Outcome::Channel; // the next call finds the same decision
        }
        Advanced { consumed, written: outlet.written, outcome, error: outlet.error }
    }

    /// Returns the bytes consumed, and the reason for the return.
    fn convert(
        &mut self,
        mut log: LogWindow<'_, '_>,
        limits: &Limits,
        recoding: &mut Recoding,
        outlet: &mut Outlet<'_, '_>,
    ) -> (u64, Outcome) {
        let chunk_size = limits.chunk_size;
        let is_small = chunk_size < LARGE_CHUNK_SIZE;
        let item_size_max = if is_small { chunk_size.saturating_mul(2) } else { chunk_size };
        let mut step = chunk_size;
        let mut done = 0; // bytes consumed
        let before = self.decompressed();
        while limits.position + done < limits.end {
            let produced = outlet.produced();
            let expanded = (self.decompressed() - before) / EXPANSION_MAX;
            if done.max(produced).max(expanded) >= limits.budget || produced >= limits.room {
                return (done, Outcome::Limit);
            }
            let position = limits.position + done;
            let left = limits.end - position;
            let wanted = usize::try_from(limits.budget - done).unwrap_or(usize::MAX);
            let wanted = wanted.min(outlet.room()).saturating_add(chunk_size - 1);
            // The first read is small: if decisions are frequent, a call makes little progress.
            let enough = chunk_size.max(usize::try_from(done).unwrap_or(0)).saturating_mul(2);
            log.fill(position, wanted.min(enough).min(READ_SIZE_MAX).max(step), left);
            let source = log.rest();
            if source.is_empty() {
                return (done, Outcome::Source);
            }
            let is_part = source.len() > step;
            let chunk = &source[..step.min(source.len())];
            let progress = outlet.convert(self, chunk, left, limits.room - produced);
            let (consumed, produced) = (progress.consumed, progress.produced);
            done += consumed;
            let is_first = log.is_at_its_start();
            log.advance(consumed);
            if produced > 0 && !outlet.add(produced) {
                return (done, Outcome::Channel);
            }
            let tried = std::mem::replace(&mut step, chunk_size);
            match progress.outcome {
                Outcome::Source => {
                    if !is_part {
                        log.drop(); // the rest is read again
                    }
                    let is_read_again = !is_part && !is_first && log.is_read();
                    if consumed == 0 && !is_read_again {
                        if tried >= item_size_max {
                            return (done, Outcome::Source);
                        }
                        step = item_size_max;
                    }
                }
                Outcome::Target if produced > 0 => {}
                Outcome::Batch => {
                    let room = limits.room - outlet.produced();
                    let at = (limits.position + done, limits.end - limits.position - done, room);
                    let counts = outlet.counts();
                    let size = self.recode_next(&mut log, at, counts, recoding);
                    let Some(size) = size else {
                        return (done, Outcome::Batch);
                    };
                    done += size;
                    log.advance(size);
                    if !outlet.put(&recoding.made) {
                        return (done, Outcome::Channel);
                    }
                }
                outcome => return (done, outcome),
            }
        }
        (done, Outcome::End)
    }

    /// Recodes the next entry and returns its size. `at`: its position, the bytes left of the
    /// source, and the room for the messages. `counts`: nothing is compressed. None if the entry is
    /// left to the caller.
    fn recode_next(
        &mut self,
        log: &mut LogWindow<'_, '_>,
        at: (u64, u64, u64),
        counts: bool,
        recoding: &mut Recoding,
    ) -> Option<u64> {
        let (position, left, room) = at;
        log.need(position, BATCH_HEADER_SIZE, left);
        let settings = &self.settings;
        let head = log.rest().first_chunk::<BATCH_HEADER_SIZE>()?;
        let attributes = head[ATTRIBUTES_AT_BATCH];
        let is_transactional = attributes & (CONTROL | TRANSACTIONAL) != 0;
        if head[MAGIC_AT] != V2 || (is_transactional && settings.stop_transactional) {
            return None;
        }
        let codec = settings.recodes.targets[usize::from(attributes & CODEC_MASK)]?;
        if codec.is_some() && counts {
            return None;
        }
        let size = usize::try_from(message::prefix(head).1).ok()? + PREFIX_SIZE;
        if size > settings.recodes.body_size_max || size as u64 > left {
            return None;
        }
        log.need(position, size, left);
        let entry = log.rest().get(..size)?;
        let size_max = usize::try_from(room).unwrap_or(usize::MAX);
        if log.is_read() {
            self.recode_with(entry, codec, size_max, recoding)?;
        } else {
            with_copy(entry, |entry| self.recode_with(entry, codec, size_max, recoding))?;
        }
        Some(size as u64)
    }
}
