//! What comes of the items that are kept: messages, their size, or rows.
//!
//! The parser is compiled once for each, so that none pays for the others.

mod messages;
mod rows;
mod size;

pub use messages::Messages;
pub use rows::Rows;
pub use size::Size;

use crate::item::Item;
use crate::outcome::Stop;

pub trait Sink {
    /// Whether older messages are made: then what is old enough passes, and messages must be
    /// possible.
    const CONVERTS: bool;
    /// Of the messages made.
    const MAGIC: u8;

    /// Takes an item and gives the bytes that it made, or stops where there is no room. The offset
    /// to be written may be a relative one.
    fn put(&mut self, item: &Item<'_>, offset: i64) -> Result<usize, Stop>;

    /// Takes an entry as it is.
    fn copy(&mut self, entry: &[u8]) -> Result<(), Stop>;

    /// All that it has made.
    fn produced(&self) -> u64;
}
