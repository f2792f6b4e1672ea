//! Makes a v2 batch of keys and values that share one timestamp.

use crate::crc::crc32c;
use crate::layout::{
    ATTRIBUTES_AT_BATCH, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, BATCH_HEADER_SIZE, CRC_AT_BATCH,
    LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, MAGIC_AT, MAX_TIMESTAMP_AT, PREFIX_SIZE,
    PRODUCER_EPOCH_AT, PRODUCER_ID_AT, RECORDS_COUNT_AT, SIZE_FIELD_SIZE, TRANSACTIONAL, V2,
};
use crate::varint;

const NONE: i32 = -1;
const NULL: i64 = -1; // in place of a size
/// A record's attributes, its timestamp delta and its count of headers.
const FIXED_SIZE: usize = 3;

/// A batch while it is made: records without a header, with offsets from 0 on.
#[derive(Default)]
pub struct KeyedBatch {
    records: Vec<u8>,
    count: i32,
}

/// The producer of a transaction: its id and epoch.
pub type Producer = (i64, i16);

impl KeyedBatch {
    /// Adds a record. None: the batch would have more bytes than its size field can state.
    pub fn add(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<()> {
        let mut number = [0; varint::SIZE_MAX_64];
        let delta = i64::from(self.count);
        let size = [FIXED_SIZE, varint::size(delta), size_of_field(key)?, size_of_field(value)?]
            .into_iter()
            .try_fold(0, usize::checked_add)?;
        let stated = varint::write(i64::try_from(size).ok()?, &mut number);
        let end = self.records.len().checked_add(stated)?.checked_add(size)?;
        i32::try_from(end.checked_add(BATCH_HEADER_SIZE)?).ok()?;
        let records = &mut self.records;
        records.try_reserve(end - records.len()).ok()?;
        records.extend_from_slice(&number[..stated]);
        records.extend_from_slice(&[0, 0]);
        let written = varint::write(delta, &mut number);
        records.extend_from_slice(&number[..written]);
        for field in [key, value] {
            let written =
                varint::write(field.map_or(NULL, |field| field.len() as i64), &mut number);
            records.extend_from_slice(&number[..written]);
            records.extend_from_slice(field.unwrap_or_default());
        }
        records.push(0);
        self.count = self.count.checked_add(1)?;
        Some(())
    }

    /// The batch. None: it has no records, or there is no memory for it.
    pub fn finish(self, time: i64, producer: Option<Producer>) -> Option<Vec<u8>> {
        if self.count == 0 {
            return None;
        }
        let size = BATCH_HEADER_SIZE + self.records.len(); // checked by `add`
        let mut batch = Vec::new();
        batch.try_reserve_exact(size).ok()?;
        batch.resize(BATCH_HEADER_SIZE, 0);
        batch.extend_from_slice(&self.records);
        let (producer_id, producer_epoch) = producer.unwrap_or((i64::from(NONE), NONE as i16));
        let size_field = (size - PREFIX_SIZE) as i32;
        put(&mut batch, PREFIX_SIZE - SIZE_FIELD_SIZE, size_field.to_be_bytes());
        put(&mut batch, LEADER_EPOCH_AT, NONE.to_be_bytes());
        batch[MAGIC_AT] = V2;
        batch[ATTRIBUTES_AT_BATCH] = if producer.is_some() { TRANSACTIONAL } else { 0 };
        put(&mut batch, LAST_OFFSET_DELTA_AT, (self.count - 1).to_be_bytes());
        put(&mut batch, BASE_TIMESTAMP_AT, time.to_be_bytes());
        put(&mut batch, MAX_TIMESTAMP_AT, time.to_be_bytes());
        put(&mut batch, PRODUCER_ID_AT, producer_id.to_be_bytes());
        put(&mut batch, PRODUCER_EPOCH_AT, producer_epoch.to_be_bytes());
        put(&mut batch, BASE_SEQUENCE_AT, NONE.to_be_bytes());
        put(&mut batch, RECORDS_COUNT_AT, self.count.to_be_bytes());
        let crc = crc32c(&batch[CRC_AT_BATCH + 4..]);
        put(&mut batch, CRC_AT_BATCH, crc.to_be_bytes());
        Some(batch)
    }
}

/// The bytes of a key or a value, with its size.
fn size_of_field(field: Option<&[u8]>) -> Option<usize> {
    let size = field.map_or(Some(NULL), |field| i64::try_from(field.len()).ok())?;
    varint::size(size).checked_add(field.unwrap_or_default().len())
}

fn put<const SIZE: usize>(batch: &mut [u8], at: usize, bytes: [u8; SIZE]) {
    batch[at..at + SIZE].copy_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::KeyedBatch;

    #[test]
    fn a_batch_without_records_is_none() {
        assert_eq!(KeyedBatch::default().finish(0, None), None);
    }

    #[test]
    fn the_size_field_counts_the_bytes_after_it() {
        let mut batch = KeyedBatch::default();
        batch.add(Some(b"key"), None).expect("it is small");
        let made = batch.finish(7, Some((5, 1))).expect("it has a record");
        assert_eq!(made[8..12], (made.len() as i32 - 12).to_be_bytes());
    }
}
