//! The target of a call's messages: a channel by its descriptor, memory, or a counter.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::descriptors::Writable;
use crate::Target;

/// In place of a channel's descriptor: the bytes made are in the result.
const MEMORY: i32 = -1;
/// In place of a channel's descriptor: messages are only counted.
const COUNTER: i32 = -2;

/// The target of that number. `channel`: room for a borrowed channel. ValueError for any other
/// negative number.
pub fn open(number: i32, is_socket: bool, channel: &mut Option<Writable>) -> PyResult<Target<'_>> {
    match number {
        MEMORY => Ok(Target::Memory),
        COUNTER => Ok(Target::Counter),
        0.. => Ok(Target::Channel(channel.insert(Writable::borrow(number, is_socket)?))),
        _ => Err(PyValueError::new_err("no descriptor")),
    }
}
