//! Compressed batches of a log that are alike, counted by their headers alone.
//!
//! Not here: what is to be done with a batch that is not like the others (the caller's).

use crate::codec::Codec;
use crate::header::Header;
use crate::layout::{
    ATTRIBUTES_AT_BATCH, BATCH_HEADER_SIZE, LOG_APPEND_TIME, MAGIC_AT, PREFIX_SIZE, V2,
};
use crate::log_window::{Input, LogWindow};
use crate::message;
use crate::workspace::Workspace;

/// So much is read at a time where small batches come one after the other; else a header.
const READ_SIZE: usize = 4096;

/// So much is announced at a time, since all of it will be sent: headers alone would be read from a
/// disk one by one. More would keep the disk from others.
const ANNOUNCED_SIZE: u64 = 4 * 1024 * 1024;

/// Which batches count.
#[derive(Clone, Copy, Debug)]
pub struct Alike {
    /// Of the first batch that is looked at.
    pub position: u64,
    /// Where the log ends.
    pub end: u64,
    /// Of all of them.
    pub codec: Codec,
    /// No record below it is in them.
    pub first_offset: i64,
    /// Of a batch, in bytes, header and all.
    pub size_max: u64,
    /// As many are counted at most.
    pub count_max: u64,
}

/// Counts batches up to the first that is not like them, or that cannot be read. Returns how many
/// there are, and their bytes.
pub fn count_alike(input: &Input<'_>, wanted: &Alike, workspace: &mut Workspace) -> (u64, u64) {
    let Alike { position, end, count_max, .. } = *wanted;
    let mut log = LogWindow::new(input, &mut workspace.sending.window);
    let (mut count, mut passed, mut announced) = (0, 0, 0);
    let mut read_size = READ_SIZE;
    while count < count_max {
        let left = end - position - passed;
        if passed >= announced {
            log.will_read(position + passed, left.min(ANNOUNCED_SIZE));
            announced = passed + ANNOUNCED_SIZE;
        }
        if log.rest().len() < BATCH_HEADER_SIZE {
            log.drop();
            log.fill(position + passed, read_size, left);
        }
        let header = log.rest().first_chunk::<BATCH_HEADER_SIZE>();
        let Some(size) = header.and_then(|header| wanted.size_of(header, left)) else {
            break;
        };
        read_size = if size < READ_SIZE as u64 { READ_SIZE } else { BATCH_HEADER_SIZE };
        log.advance(size);
        passed += size;
        count += 1;
    }
    (count, passed)
}

impl Alike {
    /// The size of the batch with this header, of which so many bytes may be there. None: it does
    /// not count.
    fn size_of(&self, header: &[u8; BATCH_HEADER_SIZE], left: u64) -> Option<u64> {
        let size = u64::try_from(message::prefix(header).1).ok()? + PREFIX_SIZE as u64;
        let attributes = &header[ATTRIBUTES_AT_BATCH - 1..=ATTRIBUTES_AT_BATCH];
        let fields = Header::parse(header);
        let counts = header[MAGIC_AT] == V2
            && attributes[0] == 0
            && attributes[1] & !LOG_APPEND_TIME == self.codec as u8
            && size > BATCH_HEADER_SIZE as u64
            && size <= self.size_max.min(left)
            && fields.last_offset_delta >= 0
            && fields.records_count > 0
            && fields.base_offset >= self.first_offset;
        counts.then_some(size)
    }
}
