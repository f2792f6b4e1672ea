//! The native kernel. It converts Kafka's record batches to older messages and back, bytes to
//! bytes.
//!
//! The contract is in `records/kernel.py`, with all rules in order and all reasons of damage, and
//! in `records/kernel_functions.py`. The twin in Python is `records/reference`. One parser serves
//! every job. A `Sink` turns the records into messages, sizes, rows or columns.
//!
//! Input is hostile: each step forward checks that the bytes exist, and no claimed count or size
//! determines an allocation. `unsafe` is denied except for calls of C (in `python`, and for codecs
//! with no safe crate) and for a hint to the processor (`prefetch`).
//!
//! Not here: opening files and sockets, codecs as streams (records/codecs), and decisions that
//! depend on a policy (downconvert/conversion).

mod account;
mod advance;
mod arrow;
mod codec;
mod crc;
mod cursor;
mod encode;
mod fast_path;
mod header;
mod item;
#[cfg(any(feature = "python", test))]
mod keyed;
mod layout;
mod log_window;
mod message;
mod outcome;
mod prefetch;
#[cfg(feature = "python")]
mod python;
mod read;
mod reason;
mod record;
mod rows;
mod sink;
mod stamps;
mod target;
mod transcoder;
mod varint;
mod window;
mod workspace;

pub use advance::{Advanced, Limits};
pub use arrow::{ArrowColumns, BinaryColumn, Bounds, Fields, ListColumn, Taken};
pub use codec::gzip::{CompressionLvl, compress as gzip_compress};
pub use codec::{Codec, Compress, CompressionLevel, FAST_GZIP, compress, decompress};
pub use crc::{crc32, crc32c};
pub use encode::encode;
pub use layout::{ROW_FIELDS, ROW_SIZE};
pub use log_window::{Input, ReadAt};
pub use outcome::{Outcome, Progress};
pub use read::{Wanted, gather};
pub use reason::Reason;
pub use stamps::file_stamps;
pub use target::{Channel, Target};
pub use transcoder::{Place, Recodes, RecordHead, Settings, Transcoder};
pub use workspace::Workspace;
