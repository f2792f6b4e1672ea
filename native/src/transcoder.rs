//! The state machine: where in a log, batch or compressed message a kernel stands, and the walk from there on.
//!
//! It goes through entries and records by the contract's rules, in their order, and stops where one says so.

use crate::batch::{Batch, Header, Kept, Purpose, Totals, Wrapper};
use crate::cursor::Cursor;
use crate::item::{self, Item};
use crate::layout::{
    self, BATCH_HEADER_SIZE, BATCH_SIZE_MIN, CODEC_MASK, ENTRY_HEAD_SIZE, MESSAGE_SIZE_MIN_V0,
    NO_TIMESTAMP, PREFIX_SIZE, RECORD_SIZE_MIN, V0, V1, V2,
};
use crate::message;
use crate::quick;
use crate::reason::Reason;
use crate::record::{self, Record};
use crate::sink::{Messages, Rows, Sink, Size};
use crate::varint::{self, Fault};
use crate::window::Window;

/// Why a call came back: the numbers of `records.kernel.Outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// The next item is not whole in the window.
    Source = 0,
    /// The next item does not fit in what is left of the target.
    Target = 1,
    /// The batch at the position reached needs a decision.
    Batch = 2,
    /// No further entry, or all has been read.
    End = 3,
    /// The next offset does not follow the wrapper's last one.
    Gap = 4,
    /// The next item is damaged.
    Damage = 5,
}

/// The same from within, where damage has a reason.
#[derive(Clone, Copy)]
pub enum Stop {
    Source,
    Target,
    Batch,
    End,
    Gap,
    Damage(Reason),
}

/// How far a call came on both sides, in bytes, and why it came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Progress {
    pub consumed: u64,
    pub produced: u64,
    pub outcome: Outcome,
}

/// What a transcoder is made for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Of the messages written: 0, 1, or 2, by which everything passes.
    pub to_magic: u8,
    /// Records of a log below it are dropped.
    pub first_offset: i64,
    /// The codecs, as bits, of entries that pass.
    pub pass_codecs: u8,
    /// Whether transactional and control batches need a decision.
    pub stop_transactional: bool,
}

/// How what is entered is taken.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// Messages are made for a wrapper: v1 offsets count from its first.
    pub is_wrapper: bool,
    /// Records below the first offset are dropped.
    pub trim: bool,
    /// A wrapper ends where an offset is missing.
    pub split_at_gaps: bool,
}

/// The head of a record whose body need not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RecordHead {
    pub offset: i64,
    pub timestamp: i64,
    /// With its size varint.
    pub size: u64,
    pub before_key: u64,
    /// -1 is null.
    pub key_size: i32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Log,
    /// In the records of a v2 batch of the log.
    LogBatch,
    /// In the decompressed records of a v2 batch.
    Batch,
    /// In the decompressed entries of a v0 or v1 message.
    Entries,
}

/// Reads entries of a log, or records of one decompressed batch, and converts them.
pub struct Transcoder {
    settings: Settings,
    place: Place,
    batch: Batch,
    wrapper: Wrapper,
    totals: Totals,
    is_admitted: bool,
    damage: Option<(Reason, usize)>,
}

impl Transcoder {
    /// Stands in a log.
    pub fn new(settings: Settings) -> Self {
        let batch = Batch {
            purpose: Purpose::of_log(&settings),
            base_offset: 0,
            base_timestamp: 0,
            append_time: None,
            records_left: 0,
            bytes_left: 0,
            source_bytes: 0,
            kept: Kept::NONE,
        };
        Self {
            settings,
            place: Place::Log,
            batch,
            wrapper: Wrapper::EMPTY,
            totals: Totals::default(),
            is_admitted: false,
            damage: None,
        }
    }

    /// Stands before the decompressed records of the v2 batch with this header.
    pub fn enter_batch(&mut self, header: &[u8; BATCH_HEADER_SIZE], entered: Entered) {
        let header = Header::parse(header);
        self.enter(Place::Batch, self.settings.to_magic, entered);
        self.batch.base_offset = header.base_offset;
        self.batch.base_timestamp = header.base_timestamp;
        self.batch.append_time = header.append_time();
        self.batch.records_left = header.records_count.max(0);
    }

    /// Stands before the decompressed entries of a v0 or v1 message.
    pub fn enter_entries(
        &mut self,
        to_magic: u8,
        offset_delta: i64,
        append_time: Option<i64>,
        entered: Entered,
    ) {
        self.enter(Place::Entries, to_magic, entered);
        self.batch.base_offset = offset_delta;
        self.batch.base_timestamp = 0;
        self.batch.append_time = append_time;
        self.batch.records_left = 0;
    }

    fn enter(&mut self, place: Place, magic: u8, entered: Entered) {
        let Entered { is_wrapper, trim, split_at_gaps } = entered;
        let floor = if trim { self.settings.first_offset } else { i64::MIN };
        self.place = place;
        self.is_admitted = false;
        self.batch.purpose = Purpose { magic, floor, is_wrapper, split_at_gaps };
        self.batch.bytes_left = u64::MAX;
        self.batch.source_bytes = 0;
        self.batch.kept = Kept::NONE;
        self.start_wrapper();
    }

    /// The next record kept is the first of a new wrapper.
    pub fn start_wrapper(&mut self) {
        self.wrapper = Wrapper::EMPTY;
    }

    /// The entry that the next call starts at is not asked about again.
    pub fn admit(&mut self) {
        self.is_admitted = true;
    }

    /// Back to the log, at an entry's start.
    pub fn leave(&mut self) {
        self.place = Place::Log;
        self.batch.purpose = Purpose::of_log(&self.settings);
        self.is_admitted = false;
    }

    /// Converts a window into a target, with which it does not overlap.
    pub fn transcode(&mut self, window: &[u8], remaining: u64, target: &mut [u8]) -> Progress {
        match self.batch.purpose.magic {
            V0 => self.write::<V0>(window, remaining, target),
            _ => self.write::<V1>(window, remaining, target),
        }
    }

    fn write<const MAGIC: u8>(
        &mut self,
        window: &[u8],
        remaining: u64,
        target: &mut [u8],
    ) -> Progress {
        let mut messages = Messages::<MAGIC>::new(target);
        let progress = self.run(Window::new(window, remaining), &mut messages);
        messages.finish();
        progress
    }

    /// As `transcode` into a target of `room` bytes, without one.
    pub fn measure(&mut self, window: &[u8], remaining: u64, room: u64) -> Progress {
        let window = Window::new(window, remaining);
        match self.batch.purpose.magic {
            V0 => self.run(window, &mut Size::<V0>::new(room)),
            _ => self.run(window, &mut Size::<V1>::new(room)),
        }
    }

    /// Writes a row for each record. Positions in it count from the beginning of `source`; `window` is a part of it.
    pub fn columns(
        &mut self,
        source: &[u8],
        window: &[u8],
        remaining: u64,
        target: &mut [u8],
    ) -> Progress {
        self.run(Window::new(window, remaining), &mut Rows::new(source, target))
    }

    /// What was wrong, and how many bytes behind the window's first one.
    pub fn damage(&self) -> Option<(Reason, usize)> {
        self.damage
    }

    /// Whether it stands inside of a v2 batch and a record is next.
    pub fn in_batch(&self) -> bool {
        self.stands_in_batch() && self.batch.records_left > 0
    }

    /// The same where perhaps no record is left.
    pub fn stands_in_batch(&self) -> bool {
        matches!(self.place, Place::LogBatch | Place::Batch)
    }

    /// Under LogAppendTime the timestamp of all records of what it stands in.
    pub fn append_time(&self) -> Option<i64> {
        self.batch.append_time.filter(|_| self.place != Place::Log)
    }

    /// Records, batches, their source bytes, produced bytes, copied bytes.
    pub fn totals(&self) -> [u64; 5] {
        let totals = &self.totals;
        [
            totals.records,
            totals.batches,
            totals.source_bytes,
            totals.produced_bytes,
            totals.copied_bytes,
        ]
    }

    /// Records, first offset, last offset, maximum timestamp, bytes.
    pub fn wrapper(&self) -> (u64, i64, i64, i64, u64) {
        let Wrapper { records, first_offset, last_offset, max_timestamp, bytes } = self.wrapper;
        (records, first_offset, last_offset, max_timestamp, bytes)
    }

    /// The last record or entry kept in this batch, or -1.
    pub fn last_offset(&self) -> i64 {
        self.batch.kept.last_offset()
    }

    #[inline(never)]
    fn run<S: Sink>(&mut self, mut window: Window<'_>, sink: &mut S) -> Progress {
        let remaining = window.remaining;
        let copied_bytes = self.totals.copied_bytes;
        self.damage = None;
        let stop = loop {
            let step = match self.place {
                Place::Log => self.entry(&mut window, sink),
                Place::LogBatch | Place::Batch => self.records(&mut window, sink),
                Place::Entries => self.inner_entry(&mut window, sink),
            };
            if let Err(stop) = step {
                break stop;
            }
        };
        let consumed = remaining - window.remaining;
        if S::CONVERTS {
            let copied_bytes = self.totals.copied_bytes - copied_bytes;
            self.totals.produced_bytes += sink.produced() - copied_bytes;
        }
        let outcome = match stop {
            Stop::Source => Outcome::Source,
            Stop::Target => Outcome::Target,
            Stop::Batch => Outcome::Batch,
            Stop::End => Outcome::End,
            Stop::Gap => Outcome::Gap,
            Stop::Damage(reason) => {
                self.damage = Some((reason, consumed as usize));
                Outcome::Damage
            }
        };
        Progress { consumed, produced: sink.produced(), outcome }
    }

    /// One entry of a log: dropped, copied, converted, or entered.
    #[inline(always)]
    fn entry<S: Sink>(&mut self, window: &mut Window<'_>, sink: &mut S) -> Result<(), Stop> {
        if window.remaining < ENTRY_HEAD_SIZE as u64 {
            return Err(Stop::End);
        }
        let head = window.bytes.first_chunk::<ENTRY_HEAD_SIZE>().ok_or(Stop::Source)?;
        let size = message::prefix(head).1;
        let magic = head[layout::MAGIC_AT];
        if size < MESSAGE_SIZE_MIN_V0 {
            return Err(Stop::Damage(Reason::EntryTooSmall));
        }
        if magic > V2 {
            return Err(Stop::Damage(Reason::UnknownMagic));
        }
        let entry_size = size as u64 + PREFIX_SIZE as u64;
        if entry_size > window.remaining {
            return Err(Stop::End);
        }
        if magic == V2 {
            if size < BATCH_SIZE_MIN {
                return Err(Stop::Damage(Reason::BatchTooSmall));
            }
            let header = window.bytes.first_chunk().ok_or(Stop::Source)?;
            if S::CONVERTS && self.settings.to_magic == V2 {
                let codec = header[layout::ATTRIBUTES_AT_BATCH] & CODEC_MASK;
                return self.pass(codec, entry_size, window, sink);
            }
            self.log_batch::<S>(&Header::parse(header), size, entry_size, window)
        } else {
            let codec = head[layout::ATTRIBUTES_AT_LEGACY] & CODEC_MASK;
            if S::CONVERTS && magic <= self.settings.to_magic {
                return self.pass(codec, entry_size, window, sink);
            }
            self.log_message(codec, entry_size, window, sink)
        }
    }

    /// Rule 4: an entry that is old enough is copied.
    fn pass<S: Sink>(
        &mut self,
        codec: u8,
        entry_size: u64,
        window: &mut Window<'_>,
        sink: &mut S,
    ) -> Result<(), Stop> {
        if !self.is_admitted && self.settings.pass_codecs >> codec & 1 == 0 {
            return Err(Stop::Batch);
        }
        let entry = whole(window, entry_size)?;
        sink.copy(entry)?;
        self.totals.copied_bytes += entry_size;
        self.passed(entry_size, window);
        Ok(())
    }

    /// Rule 5: a v2 batch is dropped or entered.
    #[inline(always)]
    fn log_batch<S: Sink>(
        &mut self,
        header: &Header,
        size: i32,
        entry_size: u64,
        window: &mut Window<'_>,
    ) -> Result<(), Stop> {
        let Settings { first_offset, stop_transactional, .. } = self.settings;
        let count = header.records_count;
        if count < 0 {
            return Err(Stop::Damage(Reason::NegativeRecordCount));
        }
        if header.attributes & (layout::CONTROL | layout::TRANSACTIONAL | CODEC_MASK) != 0 {
            if header.attributes & layout::CONTROL != 0 {
                if !self.is_admitted && (stop_transactional || !S::CONVERTS) {
                    return Err(Stop::Batch);
                }
                if S::CONVERTS {
                    self.passed(entry_size, window);
                    return Ok(());
                }
            }
            if header.attributes & CODEC_MASK != 0 {
                return Err(Stop::Batch);
            }
            let is_transactional = header.attributes & layout::TRANSACTIONAL != 0;
            if is_transactional && stop_transactional && !self.is_admitted {
                return Err(Stop::Batch);
            }
        }
        if count == 0 || header.last_offset() < first_offset {
            self.passed(entry_size, window);
            return Ok(());
        }
        if count > (size - BATCH_SIZE_MIN) / RECORD_SIZE_MIN {
            return Err(Stop::Damage(Reason::MoreRecordsThanBytes));
        }
        self.batch = Batch {
            purpose: self.batch.purpose,
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            append_time: header.append_time(),
            records_left: count,
            bytes_left: entry_size - BATCH_HEADER_SIZE as u64,
            source_bytes: entry_size,
            kept: Kept::NONE,
        };
        self.place = Place::LogBatch;
        self.passed(BATCH_HEADER_SIZE as u64, window);
        Ok(())
    }

    /// Rule 6: an uncompressed v0 or v1 message.
    fn log_message<S: Sink>(
        &mut self,
        codec: u8,
        entry_size: u64,
        window: &mut Window<'_>,
        sink: &mut S,
    ) -> Result<(), Stop> {
        let first_offset = self.settings.first_offset;
        if codec != 0 {
            return Err(Stop::Batch);
        }
        let item = message::parse(whole(window, entry_size)?).map_err(Stop::Damage)?;
        if item.offset >= first_offset {
            if S::CONVERTS && item.timestamp < NO_TIMESTAMP {
                return Err(Stop::Damage(Reason::NegativeTimestamp));
            }
            sink.put(&item, item.offset)?;
            if S::CONVERTS {
                self.totals.records += 1;
                self.totals.batches += 1;
                self.totals.source_bytes += entry_size;
            }
        }
        self.passed(entry_size, window);
        Ok(())
    }

    #[inline(always)]
    fn passed(&mut self, size: u64, window: &mut Window<'_>) {
        self.is_admitted = false;
        window.advance(size);
    }

    /// The records of a v2 batch, up to its end.
    #[inline(always)]
    fn records<S: Sink>(&mut self, window: &mut Window<'_>, sink: &mut S) -> Result<(), Stop> {
        let Self { batch, wrapper, totals, .. } = self;
        let inside = Window::new(window.bytes, batch.bytes_left.min(window.remaining));
        let beyond = inside.remaining - inside.bytes.len() as u64;
        let mut bytes = inside.bytes;
        let mut stop = None;
        let count = batch.records_left;
        let mut index = 0;
        while index < count {
            match one_record(bytes, beyond, batch, wrapper, totals, sink) {
                Ok(behind) => bytes = behind,
                Err(reason) => {
                    stop = Some(reason);
                    break;
                }
            }
            index += 1;
        }
        batch.records_left -= index;
        let consumed = (inside.bytes.len() - bytes.len()) as u64;
        batch.bytes_left -= consumed;
        window.advance(consumed);
        if let Some(stop) = stop {
            return Err(stop);
        }
        if self.place == Place::Batch {
            return Err(Stop::End);
        }
        if self.batch.bytes_left > 0 {
            return Err(Stop::Damage(Reason::BytesAfterLastRecord));
        }
        self.place = Place::Log;
        self.is_admitted = false;
        Ok(())
    }

    /// One entry of a compressed v0 or v1 message.
    fn inner_entry<S: Sink>(&mut self, window: &mut Window<'_>, sink: &mut S) -> Result<(), Stop> {
        if window.remaining < PREFIX_SIZE as u64 {
            return Err(Stop::End);
        }
        let head = window.bytes.first_chunk::<PREFIX_SIZE>().ok_or(Stop::Source)?;
        let size = message::prefix(head).1;
        if size < MESSAGE_SIZE_MIN_V0 {
            return Err(Stop::Damage(Reason::EntryTooSmall));
        }
        let entry_size = size as u64 + PREFIX_SIZE as u64;
        if entry_size > window.remaining {
            return Err(Stop::End);
        }
        let entry = whole(window, entry_size)?;
        if entry[layout::MAGIC_AT] >= V2 {
            return Err(Stop::Damage(Reason::UnknownMagic));
        }
        if entry[layout::ATTRIBUTES_AT_LEGACY] & CODEC_MASK != 0 {
            return Err(Stop::Damage(Reason::CompressedInside));
        }
        let mut item = message::parse(entry).map_err(Stop::Damage)?;
        let Self { batch, wrapper, totals, .. } = self;
        item.offset = item.offset.wrapping_add(batch.base_offset);
        if let Some(append_time) = batch.append_time {
            item.timestamp = append_time;
            item.timestamp_type = item::LOG_APPEND_TIME;
        } else if entry[layout::MAGIC_AT] != V0 {
            item.timestamp_type = item::CREATE_TIME;
        }
        if !batch.is_dropped(item.offset) {
            batch.keep(&item, wrapper, totals, sink)?;
        }
        window.advance(entry_size);
        Ok(())
    }

    /// The head of the record that it stands before; None where the window is too short for it, where no record is
    /// left, or where it is damaged.
    pub fn record_head(&mut self, window: &[u8], remaining: u64) -> Option<RecordHead> {
        self.damage = None;
        match self.find_head(window, remaining) {
            Ok(head) => Some(head),
            Err(stop) => {
                if let Stop::Damage(reason) = stop {
                    self.damage = Some((reason, 0));
                }
                None
            }
        }
    }

    fn find_head(&self, window: &[u8], remaining: u64) -> Result<RecordHead, Stop> {
        let batch = &self.batch;
        if batch.records_left == 0 {
            if self.place == Place::LogBatch && batch.bytes_left > 0 {
                return Err(Stop::Damage(Reason::BytesAfterLastRecord));
            }
            return Err(Stop::End);
        }
        let inside = Window::new(window, batch.bytes_left.min(remaining));
        let beyond = inside.remaining - inside.bytes.len() as u64;
        let mut cursor = Cursor::new(inside.bytes);
        let body_size = record_size(&mut cursor, beyond)?;
        let size_size = inside.bytes.len() - cursor.left();
        let body = Window::new(cursor.rest(), body_size);
        let mut cursor = Cursor::new(body.bytes);
        let is_whole = body.bytes.len() as u64 == body_size;
        let head = record::head(&mut cursor).map_err(|fault| match fault {
            Fault::Short if !is_whole => Stop::Source,
            fault => Stop::Damage(record::in_body(fault)),
        })?;
        let before_key = body.bytes.len() - cursor.left();
        let key_size = head.key_size.max(0) as u64;
        if key_size > body_size - before_key as u64 {
            return Err(Stop::Damage(Reason::KeyRunsPastRecord));
        }
        let (offset, timestamp, _) = batch.place_of(head.offset_delta, head.timestamp_delta);
        if !batch.is_dropped(offset) {
            batch.check(batch.purpose.magic, offset, timestamp, key_size).map_err(Stop::Damage)?;
        }
        Ok(RecordHead {
            offset,
            timestamp,
            size: size_size as u64 + body_size,
            before_key: (size_size + before_key) as u64,
            key_size: head.key_size.max(-1),
        })
    }

    /// The caller has converted the item at the position reached itself. False where there is none of that size.
    pub fn handled(
        &mut self,
        source_size: u64,
        offset: i64,
        timestamp: i64,
        message_size: u64,
    ) -> bool {
        let Self { batch, wrapper, totals, .. } = self;
        match self.place {
            Place::Log => return false,
            Place::Entries => {}
            Place::LogBatch | Place::Batch => {
                if batch.records_left == 0 || source_size > batch.bytes_left {
                    return false;
                }
                batch.bytes_left -= source_size;
                batch.records_left -= 1;
            }
        }
        if message_size > 0 {
            batch.note(offset, timestamp, message_size, wrapper, totals);
            totals.produced_bytes = totals.produced_bytes.wrapping_add(message_size);
        }
        true
    }
}

impl Batch {
    /// A record's offset, timestamp and timestamp type.
    #[inline(always)]
    fn place_of(&self, offset_delta: i32, timestamp_delta: i64) -> (i64, i64, i8) {
        let offset = self.base_offset.wrapping_add(i64::from(offset_delta));
        match self.append_time {
            Some(timestamp) => (offset, timestamp, item::LOG_APPEND_TIME),
            None => {
                let timestamp = self.base_timestamp.wrapping_add(timestamp_delta);
                (offset, timestamp, item::CREATE_TIME)
            }
        }
    }
}

/// Reads a record, keeps or drops it, and gives what is behind it. `beyond` bytes of its batch are behind `bytes`.
#[inline(always)]
fn one_record<'a, S: Sink>(
    bytes: &'a [u8],
    beyond: u64,
    batch: &mut Batch,
    wrapper: &mut Wrapper,
    totals: &mut Totals,
    sink: &mut S,
) -> Result<&'a [u8], Stop> {
    match quick::read(bytes) {
        Some((record, behind)) => {
            keep_record(&record, batch, wrapper, totals, sink)?;
            Ok(behind)
        }
        None => any_record(bytes, beyond, batch, wrapper, totals, sink),
    }
}

/// The same for a record that may be anything. Out of the way of ordinary ones, which it would slow down.
#[inline(never)]
fn any_record<'a, S: Sink>(
    bytes: &'a [u8],
    beyond: u64,
    batch: &mut Batch,
    wrapper: &mut Wrapper,
    totals: &mut Totals,
    sink: &mut S,
) -> Result<&'a [u8], Stop> {
    let mut cursor = Cursor::new(bytes);
    let size = record_size(&mut cursor, beyond)?;
    let body = cursor.take(size as usize).map_err(|_| Stop::Source)?;
    let record = record::parse(body).map_err(Stop::Damage)?;
    keep_record(&record, batch, wrapper, totals, sink)?;
    Ok(cursor.rest())
}

/// Rules 4 to 7.
#[inline(always)]
fn keep_record<S: Sink>(
    record: &Record<'_>,
    batch: &mut Batch,
    wrapper: &mut Wrapper,
    totals: &mut Totals,
    sink: &mut S,
) -> Result<(), Stop> {
    let (offset, timestamp, timestamp_type) =
        batch.place_of(record.offset_delta, record.timestamp_delta);
    if batch.is_dropped(offset) {
        return Ok(());
    }
    let item = Item {
        offset,
        timestamp,
        timestamp_type,
        key: record.key,
        value: record.value,
        headers: record.headers,
        headers_count: record.headers_count,
    };
    batch.keep(&item, wrapper, totals, sink)
}

/// Rule 2: the size of a record, which is in the batch if not in the window.
#[inline(always)]
fn record_size(cursor: &mut Cursor<'_>, beyond: u64) -> Result<u64, Stop> {
    let size = varint::read_i32(cursor).map_err(|fault| match fault {
        Fault::Short if beyond > 0 => Stop::Source,
        Fault::Short => Stop::Damage(Reason::BatchEndsEarly),
        Fault::TooLong => Stop::Damage(Reason::VarintTooLong),
    })?;
    let size = u64::try_from(size).map_err(|_| Stop::Damage(Reason::NegativeRecordSize))?;
    if size > cursor.left() as u64 + beyond {
        return Err(Stop::Damage(Reason::RecordRunsPastBatch));
    }
    Ok(size)
}

/// The entry at the window's beginning, if all of it is there.
#[inline(always)]
fn whole<'a>(window: &Window<'a>, size: u64) -> Result<&'a [u8], Stop> {
    let size = usize::try_from(size).map_err(|_| Stop::Source)?;
    window.bytes.get(..size).ok_or(Stop::Source)
}
