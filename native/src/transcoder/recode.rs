//! Recodes one compressed entry of a log at once: decompresses, converts and compresses again.
//!
//! All or nothing: if anything is damaged or too large, nothing changes. The caller then reads the
//! entry as a stream, which reports the error and its position.

use super::{Place, Settings, Transcoder};
use crate::codec::{self, Codec};
use crate::crc::crc32;
use crate::header::Header;
use crate::layout::{
    self, ATTRIBUTES_AT_BATCH, ATTRIBUTES_AT_LEGACY, BATCH_HEADER_SIZE, CODEC_MASK, CRC_AT_LEGACY,
    ENTRY_HEAD_SIZE, LOG_APPEND_TIME, MAGIC_AT, PREFIX_SIZE, SIZE_MAX, V1, V2,
};
use crate::message;
use crate::outcome::Outcome;
use crate::workspace::{Recoding, Workspace, room, with_copy};

/// A record has at least 7 bytes, and a v1 message has 34 besides key and value. So messages are at
/// most this many times as large as their records.
const GROWTH_MAX: usize = 5;

impl Transcoder {
    /// Recodes the next entry of a log to messages of that codec. `workspace.made()` has them. It
    /// is empty if no record is kept. None if the entry cannot be recoded at once. Nothing has
    /// changed then.
    pub fn recode(&mut self, entry: &[u8], codec: Codec, workspace: &mut Workspace) -> Option<()> {
        let recoding = &mut workspace.recoding;
        with_copy(entry, |entry| self.recode_with(entry, Some(codec), usize::MAX, recoding))
    }

    /// Does the same for an entry that no other thread writes to, with the given buffers. Without a
    /// codec, messages of a v2 batch are not compressed. Also None if the messages are more than
    /// `size_max` bytes.
    pub(crate) fn recode_with(
        &mut self,
        entry: &[u8],
        codec: Option<Codec>,
        size_max: usize,
        buffers: &mut Recoding,
    ) -> Option<()> {
        let before = self.clone();
        buffers.made.clear();
        let recoded = self.recode_entry(entry, codec, buffers);
        let recoded = recoded.filter(|()| buffers.made.len() <= size_max);
        if recoded.is_some() {
            self.leave();
        } else {
            *self = before;
        }
        recoded
    }

    fn recode_entry(
        &mut self,
        entry: &[u8],
        target: Option<Codec>,
        buffers: &mut Recoding,
    ) -> Option<()> {
        let head = entry.first_chunk::<ENTRY_HEAD_SIZE>()?;
        let size = usize::try_from(message::prefix(head).1).ok()?;
        if self.place != Place::Log || size != entry.len() - PREFIX_SIZE {
            return None;
        }
        let (body, is_counted) = match head[MAGIC_AT] {
            V2 => (self.body_of_batch(entry, target.is_some(), &mut buffers.body)?, true),
            magic if magic < V2 => (self.body_of_message(entry, magic, &mut buffers.body)?, false),
            _ => return None,
        };
        let Some(body_size) = body else {
            return Some(()); // no record is kept
        };
        self.account.start_batch(entry.len() as u64);
        let body = &buffers.body[..body_size];
        let read = self.messages(body, target, &mut buffers.inner, &mut buffers.made)?;
        // Bytes after the last record are damage. Bytes after the last whole message are not.
        let is_all = !is_counted || read == body_size;
        self.account.totals.decompressed_bytes += body_size as u64;
        is_all.then_some(())
    }

    /// Enters a v2 batch. Returns its decompressed size, or Some(None) if it is dropped.
    fn body_of_batch(
        &mut self,
        entry: &[u8],
        is_wrapper: bool,
        body: &mut Vec<u8>,
    ) -> Option<Option<usize>> {
        let recodes = self.settings.recodes;
        let (head, data) = entry.split_first_chunk::<BATCH_HEADER_SIZE>()?;
        let header = Header::parse(head);
        if self.settings.to_magic == V2 {
            return None;
        }
        let trim = recodes.trim || !is_wrapper;
        let is_below = trim && header.ends_before(self.settings.first_offset);
        if header.records_count == 0 || is_below {
            return Some(None);
        }
        let codec = Codec::of(head[ATTRIBUTES_AT_BATCH] & CODEC_MASK)?;
        let size = codec::decompress(codec, V2, data, room(body, recodes.body_size_max)?)?;
        self.enter_batch(head, is_wrapper);
        Some(Some(size))
    }

    /// Enters a v0 or v1 message. The result is like that of `body_of_batch`.
    fn body_of_message(
        &mut self,
        entry: &[u8],
        magic: u8,
        body: &mut Vec<u8>,
    ) -> Option<Option<usize>> {
        let recodes = self.settings.recodes;
        let item = message::parse(entry).ok()?;
        let attributes = entry[ATTRIBUTES_AT_LEGACY];
        let codec = Codec::of(attributes & CODEC_MASK)?;
        if item.value.size < 0 {
            return None;
        }
        if recodes.trim && item.offset < self.settings.first_offset {
            return Some(None);
        }
        let room = room(body, recodes.body_size_max)?;
        let size = codec::decompress(codec, magic, item.value.bytes, room)?;
        let last_inner = last_inner_offset(&body[..size])?;
        let mut offset_delta = 0;
        if magic == V1 && item.offset != 0 {
            // with 0 (from an old librdkafka), inner offsets are absolute
            if last_inner > item.offset {
                return None;
            }
            offset_delta = item.offset.wrapping_sub(last_inner);
        }
        let is_append_time = magic == V1 && attributes & LOG_APPEND_TIME != 0;
        let append_time = is_append_time.then_some(item.timestamp);
        let to_magic = magic.min(self.settings.to_magic);
        self.enter_entries(to_magic, offset_delta, append_time, true);
        Some(Some(size))
    }

    /// Converts the entered records. Returns the number of body bytes read.
    fn messages(
        &mut self,
        body: &[u8],
        codec: Option<Codec>,
        inner: &mut Vec<u8>,
        made: &mut Vec<u8>,
    ) -> Option<usize> {
        let inner_size_max = self.settings.recodes.inner_size_max;
        let size_max = inner_size_max.min(body.len().saturating_mul(GROWTH_MAX));
        let mut size = size_max.min(body.len().saturating_mul(3) / 2 + 64);
        let (mut read, mut filled) = (0, 0);
        loop {
            let rest = &body[read..];
            let target = &mut room(inner, size)?[filled..];
            let progress = self.transcode(rest, rest.len() as u64, target);
            read += progress.consumed as usize;
            filled += progress.produced as usize;
            match progress.outcome {
                Outcome::Target if size < size_max => size = size_max.min(size.saturating_mul(2)),
                Outcome::Gap | Outcome::End => {
                    match codec {
                        None => {
                            inner.truncate(filled);
                            std::mem::swap(inner, made);
                        }
                        Some(codec) if self.account.wrapper.records > 0 => {
                            self.wrap(&inner[..filled], codec, made)?;
                            self.start_wrapper();
                        }
                        Some(_) => {}
                    }
                    if progress.outcome == Outcome::End {
                        return Some(read);
                    }
                    filled = 0;
                }
                _ => return None,
            }
        }
    }

    /// Appends the wrapper of the messages.
    fn wrap(&mut self, inner: &[u8], codec: Codec, made: &mut Vec<u8>) -> Option<()> {
        let level = self.settings.recodes.level;
        let magic = self.account.output.magic;
        let wrapper = self.account.wrapper;
        let overhead = layout::message_overhead(magic);
        let at = made.len();
        made.try_reserve(overhead).ok()?;
        made.resize(at + overhead, 0);
        codec::compress(codec, level, magic, inner, made)?;
        let mut attributes = codec as u8;
        let mut timestamp = wrapper.max_timestamp;
        if let (V1, Some(append_time)) = (magic, self.batch.append_time) {
            attributes |= LOG_APPEND_TIME;
            timestamp = append_time;
        }
        let message = &mut made[at..];
        let value_size = message.len() - overhead;
        if message.len() - PREFIX_SIZE > SIZE_MAX as usize {
            return None;
        }
        message[..8].copy_from_slice(&wrapper.last_offset.to_be_bytes());
        message[8..12]
            .copy_from_slice(&((overhead - PREFIX_SIZE + value_size) as u32).to_be_bytes());
        message[MAGIC_AT] = magic;
        message[ATTRIBUTES_AT_LEGACY] = attributes;
        if magic == V1 {
            message[ENTRY_HEAD_SIZE..][..8].copy_from_slice(&timestamp.to_be_bytes());
        }
        message[overhead - 8..][..4].copy_from_slice(&NO_KEY.to_be_bytes());
        message[overhead - 4..][..4].copy_from_slice(&(value_size as u32).to_be_bytes());
        let crc = crc32(0, &message[MAGIC_AT..]);
        message[CRC_AT_LEGACY..MAGIC_AT].copy_from_slice(&crc.to_be_bytes());
        self.account.totals.temporary_bytes += overhead as u64;
        Some(())
    }
}

const NO_KEY: i32 = -1;

/// The offset field of the last message inside. In v1 all inner offsets are relative to it
/// (records/batches/inner_offsets.py).
fn last_inner_offset(body: &[u8]) -> Option<i64> {
    let mut scan = Transcoder::new(Settings::READING);
    scan.enter_entries(V1, 0, None, false);
    let progress = scan.measure(body, body.len() as u64, u64::MAX);
    (progress.outcome == Outcome::End).then(|| scan.account.last_offset()).flatten()
}
