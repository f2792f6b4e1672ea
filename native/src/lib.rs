//! The native kernel: Kafka's record batches to older messages and back, bytes to bytes.
//!
//! The contract is `records/kernel.py`, with every rule in its order and every reason of damage;
//! its twin in Python is `records/reference`. One parser serves every job; what comes of a record
//! is a `Sink`'s matter.
//!
//! Bytes are hostile: each step forward asks whether they are there, and no count or size of theirs
//! makes it allocate. `unsafe` is denied but for the places that touch C: `face`, and codecs whose
//! crates have no safe face.
//!
//! Not here: opening files and sockets, codecs as streams, and any decision that a policy could
//! take.

mod account;
mod codec;
mod crc;
mod cursor;
mod encode;
#[cfg(feature = "python")]
mod face;
mod header;
mod item;
mod layout;
mod message;
mod outcome;
mod quick;
mod reason;
mod record;
mod sink;
mod transcoder;
mod transfer;
mod varint;
mod window;
mod workspace;

pub use codec::gzip::{CompressionLvl, compress as gzip_compress};
pub use codec::{Codec, Effort, compress, decompress};
pub use crc::crc32;
pub use encode::encode;
pub use layout::{ROW_FIELDS, ROW_SIZE};
pub use outcome::{Outcome, Progress};
pub use reason::Reason;
pub use transcoder::{Compress, Entered, Recode, RecordHead, Settings, Transcoder};
pub use transfer::{Input, Limits, ReadAt, Recodes, Transferred};
pub use workspace::Workspace;
