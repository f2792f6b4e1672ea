//! The reasons of damage, in the words of the contract. Both twins use the same words.

/// A reason of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the words are in `text`
pub enum Reason {
    EntryTooSmall,
    UnknownMagic,
    BatchTooSmall,
    NegativeRecordCount,
    MoreRecordsThanBytes,
    MessageTooSmall,
    KeyRunsPastMessage,
    ValueRunsPastMessage,
    CompressedInside,
    BytesAfterLastRecord,
    BatchEndsEarly,
    VarintTooLong,
    NegativeRecordSize,
    RecordRunsPastBatch,
    RecordEndsEarly,
    KeyRunsPastRecord,
    ValueRunsPastRecord,
    NegativeHeaderCount,
    MoreHeadersThanBytes,
    HeaderKeyNull,
    HeaderKeyRunsPastRecord,
    HeaderValueRunsPastRecord,
    BytesAfterFields,
    NegativeTimestamp,
    OffsetDoesNotIncrease,
    OffsetDeltaTooLarge,
    RecordTooLarge,
}

impl Reason {
    /// The text of the reason.
    pub const fn text(self) -> &'static str {
        match self {
            Self::EntryTooSmall => "entry is smaller than a message header",
            Self::UnknownMagic => "unknown magic",
            Self::BatchTooSmall => "batch is smaller than its header",
            Self::NegativeRecordCount => "negative record count",
            Self::MoreRecordsThanBytes => "more records than bytes",
            Self::MessageTooSmall => "message is smaller than its header",
            Self::KeyRunsPastMessage => "key runs past its message",
            Self::ValueRunsPastMessage => "value runs past its message",
            Self::CompressedInside => "compressed message inside a compressed message",
            Self::BytesAfterLastRecord => "bytes left after the last record",
            Self::BatchEndsEarly => "batch ends before its last record",
            Self::VarintTooLong => "varint is too long",
            Self::NegativeRecordSize => "negative record size",
            Self::RecordRunsPastBatch => "record runs past its batch",
            Self::RecordEndsEarly => "record ends before its fields",
            Self::KeyRunsPastRecord => "key runs past its record",
            Self::ValueRunsPastRecord => "value runs past its record",
            Self::NegativeHeaderCount => "negative header count",
            Self::MoreHeadersThanBytes => "more headers than bytes",
            Self::HeaderKeyNull => "header key is null",
            Self::HeaderKeyRunsPastRecord => "header key runs past its record",
            Self::HeaderValueRunsPastRecord => "header value runs past its record",
            Self::BytesAfterFields => "bytes left after the record's fields",
            Self::NegativeTimestamp => "negative timestamp",
            Self::OffsetDoesNotIncrease => "offset does not increase",
            Self::OffsetDeltaTooLarge => "offset delta is too large",
            Self::RecordTooLarge => "record is too large for a message",
        }
    }
}
