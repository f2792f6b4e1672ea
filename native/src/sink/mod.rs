//! What is made of the records that are kept: messages, their size, or rows.
//!
//! The parser is compiled once for each sink, so that none pays for the others.

mod messages;
mod rows;
mod size;

pub use messages::Messages;
pub use rows::Rows;
pub use size::Size;

use crate::item::Item;
use crate::outcome::Stop;

pub trait Sink {
    /// Whether older messages are made: then entries that are old enough are copied, and records
    /// that no message can hold are damage.
    const CONVERTS: bool;
    /// Of the messages made.
    const MAGIC: u8;
    /// Whether it reads keys and values, and not only where they are.
    const READS_ALL: bool;

    /// Takes a record and returns the bytes made of it, or stops where there is no room. `offset`
    /// is the one to write, which may be relative.
    fn put(&mut self, item: &Item<'_>, offset: i64) -> Result<usize, Stop>;

    /// Takes an entry as it is.
    fn copy(&mut self, entry: &[u8]) -> Result<(), Stop>;

    /// All that it has made.
    fn produced(&self) -> u64;
}
