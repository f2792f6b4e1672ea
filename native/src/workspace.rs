//! The buffers of `recode` and `advance`, and for copies. They belong to the thread and are reused.

use std::cell::Cell;

use crate::codec::{self, Codec};

/// The maximum decompressed size of an entry, unless the caller sets a lower one.
const BODY_SIZE_MAX: usize = 1024 * 1024;
/// Larger buffers are not kept for the next call.
const KEPT_MAX: usize = 1024 * 1024;

/// Buffers that grow when they are needed.
#[derive(Default)]
pub struct Workspace {
    pub(crate) recoding: Recoding,
    pub(crate) sending: Sending,
}

/// The buffers of `recode`.
#[derive(Default)]
pub struct Recoding {
    /// An entry's decompressed bytes.
    pub(crate) body: Vec<u8>,
    /// The messages made from these bytes.
    pub(crate) inner: Vec<u8>,
    /// Those messages compressed.
    pub(crate) made: Vec<u8>,
}

/// The buffers of `advance`.
#[derive(Default)]
pub struct Sending {
    /// The part of a log that is in memory.
    pub(crate) window: Vec<u8>,
    /// A chunk of messages.
    pub(crate) target: Vec<u8>,
    /// The part of the chunk that a channel did not take.
    pub(crate) rest: Vec<u8>,
}

impl Workspace {
    /// The result of the last recode: compressed messages.
    pub fn made(&self) -> &[u8] {
        &self.recoding.made
    }

    /// The part of a chunk that the channel of the last `advance` did not take, or the bytes made
    /// in memory.
    pub fn rest(&self) -> &[u8] {
        &self.sending.rest
    }

    /// The decompressed `data`, if it has at most `limit` bytes.
    pub fn decompress(
        &mut self,
        codec: Codec,
        magic: u8,
        data: &[u8],
        limit: usize,
    ) -> Option<&[u8]> {
        let body = &mut self.recoding.body;
        let room = room(body, limit.min(BODY_SIZE_MAX))?;
        let size = with_copy(data, |data| codec::decompress(codec, magic, data, room))?;
        Some(&body[..size])
    }

    /// Frees the buffers that have grown larger than usual.
    pub fn trim(&mut self) {
        let Recoding { body, inner, made } = &mut self.recoding;
        let Sending { window, target, rest } = &mut self.sending;
        [body, inner, made, window, target, rest].into_iter().for_each(trim);
    }
}

/// Frees a buffer that has grown larger than usual.
pub fn trim(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_MAX {
        *buffer = Vec::new();
    }
}

thread_local! {
    static COPY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with a copy of bytes that other threads may overwrite. So each byte is read only
/// once, and the decompressed bytes are the checked ones. None if there is not enough memory, or if
/// `work` fails.
pub fn with_copy<T>(bytes: &[u8], work: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    let mut copy = COPY.take();
    copy.clear();
    copy.try_reserve_exact(bytes.len()).ok()?;
    copy.extend_from_slice(bytes);
    let done = work(&copy);
    trim(&mut copy);
    COPY.set(copy);
    done
}

/// At least `size` bytes of room. None if there is not enough memory.
pub fn room(buffer: &mut Vec<u8>, size: usize) -> Option<&mut [u8]> {
    if let Some(more) = size.checked_sub(buffer.len()) {
        buffer.try_reserve_exact(more).ok()?;
        buffer.resize(size, 0);
    }
    Some(&mut buffer[..size])
}
