//! The reasons of damage, in the words of the contract. Both twins use the same words.

macro_rules! reasons {
    ($($name:ident = $text:literal,)*) => {
        /// A reason of damage.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)] // the words are in `text`
        pub enum Reason {
            $($name,)*
        }

        impl Reason {
            /// The text of the reason.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    EntryTooSmall = "entry is smaller than a message header",
    UnknownMagic = "unknown magic",
    BatchTooSmall = "batch is smaller than its header",
    NegativeRecordCount = "negative record count",
    MoreRecordsThanBytes = "more records than bytes",
    MessageTooSmall = "message is smaller than its header",
    KeyRunsPastMessage = "key runs past its message",
    ValueRunsPastMessage = "value runs past its message",
    CompressedInside = "compressed message inside a compressed message",
    BytesAfterLastRecord = "bytes left after the last record",
    BatchEndsEarly = "batch ends before its last record",
    VarintTooLong = "varint is too long",
    NegativeRecordSize = "negative record size",
    RecordRunsPastBatch = "record runs past its batch",
    RecordEndsEarly = "record ends before its fields",
    KeyRunsPastRecord = "key runs past its record",
    ValueRunsPastRecord = "value runs past its record",
    NegativeHeaderCount = "negative header count",
    MoreHeadersThanBytes = "more headers than bytes",
    HeaderKeyNull = "header key is null",
    HeaderKeyRunsPastRecord = "header key runs past its record",
    HeaderValueRunsPastRecord = "header value runs past its record",
    BytesAfterFields = "bytes left after the record's fields",
    NegativeTimestamp = "negative timestamp",
    OffsetDoesNotIncrease = "offset does not increase",
    OffsetDeltaTooLarge = "offset delta is too large",
    RecordTooLarge = "record is too large for a message",
}
