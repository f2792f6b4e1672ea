//! The entries of a compressed v0 or v1 message.

use super::Transcoder;
use crate::item;
use crate::layout::{self, CODEC_MASK, MESSAGE_SIZE_MIN_V0, PREFIX_SIZE, V0, V2};
use crate::message;
use crate::outcome::Outcome;
use crate::reason::Reason;
use crate::sink::Sink;
use crate::window::Window;

impl Transcoder {
    /// Drops or converts one entry.
    pub(super) fn inner_entry<S: Sink>(
        &mut self,
        window: &mut Window<'_>,
        sink: &mut S,
    ) -> Result<(), Outcome> {
        if window.remaining < PREFIX_SIZE as u64 {
            return Err(Outcome::End);
        }
        let head = window.bytes.first_chunk::<PREFIX_SIZE>().ok_or(Outcome::Source)?;
        let size = message::prefix(head).1;
        if size < MESSAGE_SIZE_MIN_V0 {
            return Err(Outcome::Damage(Reason::EntryTooSmall));
        }
        let entry_size = size as u64 + PREFIX_SIZE as u64;
        if entry_size > window.remaining {
            return Err(Outcome::End);
        }
        let entry = window.whole(entry_size)?;
        let magic = entry[layout::MAGIC_AT];
        if magic >= V2 {
            return Err(Outcome::Damage(Reason::UnknownMagic));
        }
        if entry[layout::ATTRIBUTES_AT_LEGACY] & CODEC_MASK != 0 {
            return Err(Outcome::Damage(Reason::CompressedInside));
        }
        let mut item = message::parse(entry).map_err(Outcome::Damage)?;
        item.offset = item.offset.wrapping_add(self.batch.base_offset);
        if let Some(append_time) = self.batch.append_time {
            item.timestamp = append_time;
            item.timestamp_type = item::LOG_APPEND_TIME;
        } else if magic != V0 {
            item.timestamp_type = item::CREATE_TIME;
        }
        self.account.take(&item, sink)?;
        window.advance(entry_size);
        Ok(())
    }
}
