//! The state machine: a transcoder's place in a log, batch or compressed message, and how it
//! continues from there.
//!
//! It applies the contract's rules to entries and records, in their order, and stops when a rule
//! requires it.

mod batch;
mod entries;
mod large;
mod log;
mod recode;

pub use large::RecordHead;

use crate::account::{Account, OutputSpec, Totals, Wrapper};
use crate::codec::{Codec, CompressionLevel};
use crate::header::Header;
use crate::layout::{BATCH_HEADER_SIZE, CODEC_MASK, V0, V1, V2};
use crate::outcome::Progress;
use crate::sink::{Messages, Rows, Sink, Size};
use crate::window::Window;
use batch::Batch;

/// The parameters of a transcoder.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The format of the messages written: 0 or 1, or 2 to copy everything unchanged.
    pub to_magic: u8,
    /// Records of a log below this offset are dropped.
    pub first_offset: i64,
    /// The codecs, as bits, of entries that are copied unchanged.
    pub pass_codecs: u8,
    /// Whether transactional and control batches need a decision.
    pub stop_transactional: bool,
    /// How compressed entries become compressed messages.
    pub recodes: Recodes,
}

/// How compressed entries become compressed messages.
#[derive(Clone, Copy, Debug)]
pub struct Recodes {
    /// The target codec, by the codec of a v2 batch: None leaves messages uncompressed. Batches
    /// without a target are left to the caller.
    pub targets: [Option<Option<Codec>>; Self::CODECS],
    /// The level of compressing them.
    pub level: CompressionLevel,
    /// Records below the first offset are dropped.
    pub trim: bool,
    /// Another wrapper begins at each gap in the offsets.
    pub split_at_gaps: bool,
    /// The maximum decompressed size of a recoded entry.
    pub body_size_max: usize,
    /// The maximum size of the messages inside one compressed message.
    pub inner_size_max: usize,
}

impl Recodes {
    /// The number of codecs that the attributes can name.
    pub const CODECS: usize = CODEC_MASK as usize + 1;

    /// All compressed entries are left to the caller.
    pub const NONE: Self = Self {
        targets: [None; Self::CODECS],
        level: CompressionLevel::Fast,
        trim: true,
        split_at_gaps: false,
        body_size_max: 0,
        inner_size_max: 0,
    };
}

impl Settings {
    /// Every record is read.
    pub const READING: Self = Self {
        to_magic: V0,
        first_offset: i64::MIN,
        pass_codecs: 0,
        stop_transactional: false,
        recodes: Recodes::NONE,
    };

    /// How the records of a log become messages.
    fn output(&self) -> OutputSpec {
        OutputSpec {
            magic: self.to_magic,
            lowest_offset: self.first_offset,
            is_wrapper: false,
            split_at_gaps: false,
        }
    }
}

/// Where a transcoder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before an entry of a log.
    Log,
    /// In the records of a v2 batch of the log.
    LogBatch,
    /// In the decompressed records of a v2 batch.
    Batch,
    /// In the decompressed entries of a v0 or v1 message.
    Entries,
}

impl Place {
    /// Whether it is in a v2 batch, or at its end.
    pub fn is_batch(self) -> bool {
        matches!(self, Self::LogBatch | Self::Batch)
    }
}

/// Reads entries of a log, or records of one decompressed batch, and converts them.
#[derive(Clone)]
pub struct Transcoder {
    pub(crate) settings: Settings,
    /// Where it is.
    pub place: Place,
    /// The current or last batch.
    batch: Batch,
    account: Account,
    is_accepted: bool,
}

impl Transcoder {
    /// Makes a transcoder in a log.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            place: Place::Log,
            batch: Batch::default(),
            account: Account::new(settings.output()),
            is_accepted: false,
        }
    }

    /// Moves to the decompressed records of the v2 batch with this header. `is_wrapper`: the
    /// messages are for a wrapper, and v1 offsets are relative to its first.
    pub fn enter_batch(&mut self, header: &[u8; BATCH_HEADER_SIZE], is_wrapper: bool) {
        self.enter(Place::Batch, self.settings.to_magic, is_wrapper);
        self.batch = Batch::of_records(&Header::parse(header), u64::MAX);
    }

    /// Moves to the decompressed entries of a v0 or v1 message.
    pub fn enter_entries(
        &mut self,
        to_magic: u8,
        offset_delta: i64,
        append_time: Option<i64>,
        is_wrapper: bool,
    ) {
        self.enter(Place::Entries, to_magic, is_wrapper);
        self.batch = Batch::of_entries(offset_delta, append_time);
    }

    fn enter(&mut self, place: Place, magic: u8, is_wrapper: bool) {
        let Recodes { trim, split_at_gaps, .. } = self.settings.recodes;
        let is_trimmed = trim || !is_wrapper;
        let lowest_offset = if is_trimmed { self.settings.first_offset } else { i64::MIN };
        self.place = place;
        self.is_accepted = false;
        self.account.output = OutputSpec { magic, lowest_offset, is_wrapper, split_at_gaps };
        self.account.start_batch(0);
        self.start_wrapper();
    }

    /// The next record kept is the first of a new wrapper.
    pub fn start_wrapper(&mut self) {
        self.account.wrapper = Wrapper::EMPTY;
    }

    /// The next entry of the log needs no decision.
    pub fn accept_next_entry(&mut self) {
        self.is_accepted = true;
    }

    /// Returns to the log, at an entry's start.
    pub fn leave(&mut self) {
        self.place = Place::Log;
        self.is_accepted = false;
        self.account.output = self.settings.output();
    }

    /// Converts a window into a target. Requires `can_convert`.
    pub fn transcode(&mut self, window: &[u8], remaining: u64, target: &mut [u8]) -> Progress {
        let window = Window::new(window, remaining);
        match self.account.output.magic {
            V0 => self.write(window, Messages::<V0>::new(target)),
            _ => self.write(window, Messages::<V1>::new(target)),
        }
    }

    fn write<const MAGIC: u8>(
        &mut self,
        window: Window<'_>,
        mut messages: Messages<'_, MAGIC>,
    ) -> Progress {
        let progress = self.run(window, &mut messages);
        messages.finish();
        progress
    }

    /// As `transcode` into a target of `room` bytes, without writing.
    pub fn measure(&mut self, window: &[u8], remaining: u64, room: u64) -> Progress {
        let window = Window::new(window, remaining);
        match self.account.output.magic {
            V0 => self.run(window, &mut Size::<V0>::new(room)),
            _ => self.run(window, &mut Size::<V1>::new(room)),
        }
    }

    /// Writes a row for each record. Positions are relative to the beginning of `source`, which
    /// contains `window`.
    pub fn columns(
        &mut self,
        source: &[u8],
        window: &[u8],
        remaining: u64,
        target: &mut [u8],
    ) -> Progress {
        self.run(Window::new(window, remaining), &mut Rows::new(source, target))
    }

    /// Puts each record into a sink.
    pub fn gather<S: Sink>(&mut self, window: &[u8], remaining: u64, sink: &mut S) -> Progress {
        self.run(Window::new(window, remaining), sink)
    }

    /// Reads from the current place until a rule stops it.
    #[inline(never)]
    fn run<S: Sink>(&mut self, mut window: Window<'_>, sink: &mut S) -> Progress {
        let remaining = window.remaining;
        let outcome = loop {
            let step = match self.place {
                Place::Log => self.entry(&mut window, sink),
                Place::LogBatch | Place::Batch => self.records(&mut window, sink),
                Place::Entries => self.inner_entry(&mut window, sink),
            };
            if let Err(outcome) = step {
                break outcome;
            }
        };
        let consumed = remaining - window.remaining;
        let produced = sink.produced();
        if S::CONVERTS {
            let totals = &mut self.account.totals;
            totals.temporary_bytes = totals.temporary_bytes.wrapping_add(produced);
        }
        Progress { consumed, produced, outcome }
    }

    /// Whether the transcoder is in a v2 batch and a record is next.
    pub fn has_record_next(&self) -> bool {
        self.place.is_batch() && self.batch.records_left > 0
    }

    /// Whether messages can be made at this place. Records of a v2 batch do not become messages of
    /// magic 2.
    pub fn can_convert(&self) -> bool {
        !self.place.is_batch() || self.account.output.magic < V2
    }

    /// The timestamp of all records of the batch or message, under LogAppendTime.
    pub fn append_time(&self) -> Option<i64> {
        self.batch.append_time.filter(|_| self.place != Place::Log)
    }

    /// Records, batches, temporary bytes, and decompressed bytes of recoded entries.
    pub fn totals(&self) -> (u64, u64, u64, u64) {
        let Totals { records, batches, temporary_bytes, decompressed_bytes } = self.account.totals;
        (records, batches, temporary_bytes, decompressed_bytes)
    }

    /// Decompressed bytes of recoded entries.
    pub fn decompressed(&self) -> u64 {
        self.account.totals.decompressed_bytes
    }

    /// Records, first offset, last offset, maximum timestamp.
    pub fn wrapper(&self) -> (u64, i64, i64, i64) {
        let Wrapper { records, first_offset, last_offset, max_timestamp } = self.account.wrapper;
        (records, first_offset, last_offset, max_timestamp)
    }

    /// The last record or entry kept in this batch, or -1.
    pub fn last_offset(&self) -> i64 {
        self.account.last_offset().unwrap_or(-1)
    }
}
