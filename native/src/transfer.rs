//! From a file to a channel, converted on the way, chunk after chunk.
//!
//! Not here: decisions between two chunks (the caller's), descriptors (`python`).

use std::io::{self, ErrorKind, Write};

use crate::codec::{Codec, CompressionLevel};
use crate::layout::{
    ATTRIBUTES_AT_BATCH, BATCH_HEADER_SIZE, CODEC_MASK, CONTROL, MAGIC_AT, PREFIX_SIZE,
    TRANSACTIONAL, V2,
};
use crate::log_window::{Input, LogWindow};
use crate::message;
use crate::outcome::Outcome;
use crate::transcoder::{Compress, Recode, Transcoder};
use crate::workspace::{Recoding, Sending, Workspace, room, with_copy};

/// An item may be as large as a chunk of this size or more, and as two smaller ones.
const LARGE_CHUNK_SIZE: usize = 64 * 1024;

/// What is read at a time at most: a call of the system costs as much as copying four kilobytes does,
/// and more would not stay in the processor's second cache beside the chunks.
const READ_SIZE_MAX: usize = 128 * 1024;

/// Of chunks that are written together. A reader is woken by each write: chunk by chunk it takes
/// turns with the sender where both have one processor, and that costs more than a small conversion.
const GATHERED_MAX: usize = 128 * 1024;

/// A call ends where so many times its budget has been decompressed: a small batch may become as much
/// as a large one.
const EXPANSION_MAX: u64 = 8;

/// Where messages go.
pub trait Channel: Write {
    /// Bytes that it would take by one write, as far as it knows; None: it does not say.
    fn room(&self) -> Option<usize> {
        None
    }
}

/// How far a transfer goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Where the conversion stands.
    pub position: u64,
    /// Where it ends.
    pub end: u64,
    /// Of source, in bytes.
    pub chunk_size: usize,
    /// Not a byte more than this is written, and no message is cut: it is the room for chunks.
    pub promised: u64,
    /// No other chunk is begun once so much has been consumed, or written, or eight times as much
    /// decompressed.
    pub budget: u64,
}

/// What becomes of compressed v2 batches, which are recoded on the way.
#[derive(Clone, Copy, Debug)]
pub struct Recodes {
    /// The target codec, by the batch's. None: such batches are left to the caller.
    pub targets: [Option<Codec>; Self::CODECS],
    /// As in `Recode`, and so are those that follow.
    pub level: CompressionLevel,
    #[allow(missing_docs)]
    pub trim: bool,
    #[allow(missing_docs)]
    pub split_at_gaps: bool,
    #[allow(missing_docs)]
    pub body_size_max: usize,
    #[allow(missing_docs)]
    pub inner_size_max: usize,
}

impl Recodes {
    /// As many as the attributes have room for.
    pub const CODECS: usize = CODEC_MASK as usize + 1;
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

/// Messages on their way to a channel. Those of several chunks are written at once where the channel
/// has room for all of them, so that mostly no more than a chunk is left to the caller.
struct Outlet<'a> {
    channel: &'a mut dyn Channel,
    target: &'a mut [u8],
    filled: usize,
    /// Of `target`, beside the room for a chunk.
    gathered: usize,
    /// Bytes that are written at once.
    at_once: usize,
    /// Bytes that the channel would take after the last write.
    room: usize,
    /// Of source, in a chunk.
    chunk_size: usize,
    rest: &'a mut Vec<u8>,
    written: u64,
    error: Option<io::Error>,
}

/// Memory takes everything.
impl Channel for Vec<u8> {
    fn room(&self) -> Option<usize> {
        Some(usize::MAX)
    }
}

impl<'a> Outlet<'a> {
    /// None: there is no memory for the chunks.
    fn new(
        channel: &'a mut dyn Channel,
        target: &'a mut Vec<u8>,
        rest: &'a mut Vec<u8>,
        chunk_size: usize,
    ) -> Option<Self> {
        rest.clear();
        let free = channel.room();
        let gathered = if free.is_some() { GATHERED_MAX } else { 0 };
        let target = room(target, chunk_size.saturating_mul(2).saturating_add(gathered))?;
        let mut outlet = Self {
            channel,
            target,
            filled: 0,
            gathered,
            at_once: 0,
            room: 0,
            chunk_size,
            rest,
            written: 0,
            error: None,
        };
        outlet.note_room(free);
        Some(outlet)
    }

    /// Looks how much can be written at once: what there is room for, but for what the channel may
    /// need for itself.
    fn look(&mut self) {
        let room = self.channel.room();
        self.note_room(room);
    }

    fn note_room(&mut self, room: Option<usize>) {
        let free = room.map_or(0, |free| free - free / 4);
        self.at_once = free.min(self.gathered);
        self.room = room.unwrap_or(usize::MAX);
    }

    /// Bytes that the channel would still take, as far as is known.
    fn room(&self) -> usize {
        self.room.saturating_sub(self.filled)
    }

    /// Bytes that have been made.
    fn produced(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Where the next chunk is made.
    fn target(&mut self, size_max: usize) -> &mut [u8] {
        let size = size_max.min(self.chunk_size.saturating_mul(2));
        &mut self.target[self.filled..][..size]
    }

    /// Takes so many bytes of the target. False: the channel did not take what was written.
    fn add(&mut self, size: usize) -> bool {
        self.filled += size;
        self.filled.saturating_add(self.chunk_size) < self.at_once || self.flush()
    }

    /// The same for messages that were made elsewhere: all of them, also where the channel does not
    /// even take what was made before.
    fn put(&mut self, messages: &[u8]) -> bool {
        if self.filled + messages.len() > self.at_once && !self.flush() {
            self.rest.extend_from_slice(messages);
            return false;
        }
        if messages.len() > self.at_once {
            return self.write(messages);
        }
        self.target[self.filled..][..messages.len()].copy_from_slice(messages);
        self.filled += messages.len();
        true
    }

    /// Writes what has been gathered. False: the channel did not take all of it.
    fn flush(&mut self) -> bool {
        let target = std::mem::take(&mut self.target);
        let is_taken = self.write(&target[..self.filled]);
        self.target = target;
        self.filled = 0;
        is_taken
    }

    fn write(&mut self, messages: &[u8]) -> bool {
        if messages.is_empty() {
            return true;
        }
        let taken = match self.channel.write(messages) {
            Ok(taken) => taken.min(messages.len()),
            Err(error) => {
                self.error = (error.kind() != ErrorKind::WouldBlock).then_some(error);
                0
            }
        };
        self.written += taken as u64;
        self.rest.extend_from_slice(&messages[taken..]);
        self.look();
        taken == messages.len()
    }
}

impl Transcoder {
    /// Converts and writes until the channel takes no more, a limit is reached, or something has to
    /// be decided. What the channel left is `workspace.rest()`. `gzip`: a compressor for the level
    /// `Fast`, in the place of the kernel's own.
    pub fn transfer(
        &mut self,
        input: &Input<'_>,
        channel: &mut dyn Channel,
        limits: &Limits,
        recodes: Option<&Recodes>,
        gzip: Option<Compress<'_>>,
        workspace: &mut Workspace,
    ) -> Transferred {
        let Workspace { recoding, sending } = workspace;
        let Sending { window, target, rest } = sending;
        let log = LogWindow::new(input, window);
        let Some(mut outlet) = Outlet::new(channel, target, rest, limits.chunk_size) else {
            return Transferred { consumed: 0, written: 0, outcome: Outcome::Source, error: None };
        };
        let (consumed, mut outcome) =
            self.convert(log, limits, recodes, gzip, recoding, &mut outlet);
        if !outlet.flush() {
            outcome = Outcome::Channel; // asked again, the same is found to be decided
        }
        Transferred { consumed, written: outlet.written, outcome, error: outlet.error }
    }

    /// Returns the bytes consumed, and why it came back.
    fn convert(
        &mut self,
        mut log: LogWindow<'_, '_>,
        limits: &Limits,
        recodes: Option<&Recodes>,
        mut gzip: Option<Compress<'_>>,
        recoding: &mut Recoding,
        outlet: &mut Outlet<'_>,
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
            if done.max(produced).max(expanded) >= limits.budget || produced >= limits.promised {
                return (done, Outcome::Limit);
            }
            let position = limits.position + done;
            let left = limits.end - position;
            let wanted = usize::try_from(limits.budget - done).unwrap_or(usize::MAX);
            let read_size = wanted.min(outlet.room()).saturating_add(chunk_size).min(READ_SIZE_MAX);
            log.fill(position, read_size.max(item_size_max), left);
            let source = log.rest();
            if source.is_empty() {
                return (done, Outcome::Source);
            }
            let is_part = source.len() > step;
            let chunk = &source[..step.min(source.len())];
            let owed = usize::try_from(limits.promised - produced).unwrap_or(usize::MAX);
            let target = outlet.target(owed);
            let progress = self.transcode(chunk, left, target);
            let (consumed, produced) = (progress.consumed, progress.produced as usize);
            done += consumed;
            let is_first = log.is_at_its_start();
            log.advance(consumed);
            if produced > 0 && !outlet.add(produced) {
                return (done, Outcome::Channel);
            }
            let tried = std::mem::replace(&mut step, chunk_size);
            match progress.outcome {
                Outcome::Source if consumed > 0 => {
                    if !is_part {
                        log.drop(); // what is left is read again
                    }
                }
                Outcome::Source if is_part && tried < item_size_max => step = item_size_max,
                Outcome::Source if !is_part && !is_first && log.is_read() => log.drop(),
                Outcome::Target if produced > 0 => {}
                Outcome::Batch => {
                    let Some(recodes) = recodes else {
                        return (done, Outcome::Batch);
                    };
                    let room = limits.promised - outlet.produced();
                    let at = (limits.position + done, limits.end - limits.position - done, room);
                    let Some(size) = self.recode_next(&mut log, at, recodes, &mut gzip, recoding)
                    else {
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

    /// Recodes the entry that is next. Returns its size. `at`: its position, the bytes left of the
    /// source, and the room for the messages. None: it is for the caller.
    fn recode_next(
        &mut self,
        log: &mut LogWindow<'_, '_>,
        at: (u64, u64, u64),
        recodes: &Recodes,
        gzip: &mut Option<Compress<'_>>,
        recoding: &mut Recoding,
    ) -> Option<u64> {
        let (position, left, room) = at;
        if log.rest().len() < BATCH_HEADER_SIZE && log.is_read() {
            log.drop();
            log.fill(position, BATCH_HEADER_SIZE, left);
        }
        let head = log.rest().first_chunk::<BATCH_HEADER_SIZE>()?;
        let attributes = head[ATTRIBUTES_AT_BATCH];
        let is_transactional = attributes & (CONTROL | TRANSACTIONAL) != 0;
        if head[MAGIC_AT] != V2 || (is_transactional && self.stops_transactional()) {
            return None;
        }
        let codec = recodes.targets[usize::from(attributes & CODEC_MASK)]?;
        let size = usize::try_from(message::prefix(head).1).ok()? + PREFIX_SIZE;
        if size > recodes.body_size_max || size as u64 > left {
            return None;
        }
        if log.rest().len() < size && log.is_read() {
            log.drop();
            log.fill(position, size, left);
        }
        let job = Recode {
            codec,
            level: recodes.level,
            trim: recodes.trim,
            split_at_gaps: recodes.split_at_gaps,
            body_size_max: recodes.body_size_max,
            inner_size_max: recodes.inner_size_max,
            made_size_max: usize::try_from(room).unwrap_or(usize::MAX),
        };
        let is_gzip = codec == Codec::Gzip && recodes.level == CompressionLevel::Fast;
        let other: Option<Compress<'_>> = match gzip {
            Some(gzip) if is_gzip => Some(&mut **gzip),
            _ => None,
        };
        let entry = log.rest().get(..size)?;
        if log.is_read() {
            self.recode_with(entry, &job, recoding, other)?;
        } else {
            with_copy(entry, |entry| self.recode_with(entry, &job, recoding, other))?;
        }
        Some(size as u64)
    }
}
