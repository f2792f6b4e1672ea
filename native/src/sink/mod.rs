//! A sink turns kept records into messages, their size, rows, or a summary.
//!
//! The parser is compiled once for each sink, so that no sink costs the others time.

mod messages;
mod rows;
mod size;
mod summary;

pub use messages::Messages;
pub use rows::Rows;
pub use size::Size;
pub use summary::Summary;

use crate::item::Item;
use crate::outcome::Outcome;

pub trait Sink {
    /// Whether the sink makes older messages. Entries that are old enough are then copied, and
    /// records that no message can hold are damage.
    const CONVERTS: bool;
    /// The format of the messages made.
    const MAGIC: u8;
    /// Whether the sink reads the bytes of keys and values, and not only their positions.
    const READS_ALL: bool;

    /// Takes a record and returns the number of bytes made, or stops if there is no room. `offset`
    /// is the offset to write, which may be relative.
    fn put(&mut self, item: &Item<'_>, offset: i64) -> Result<usize, Outcome>;

    /// Copies an entry unchanged.
    fn copy(&mut self, entry: &[u8]) -> Result<(), Outcome>;

    /// The number of bytes made.
    fn produced(&self) -> u64;
}
