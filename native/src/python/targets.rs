//! The target of a call's messages: a channel by its descriptor, memory, or a counter.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::descriptors::Writable;
use crate::Target;

/// In place of a channel's descriptor: the bytes made are in the result.
const MEMORY: i32 = -1;
/// In place of a channel's descriptor: messages are only counted.
const COUNTER: i32 = -2;

/// A borrowed target argument.
pub enum Taker {
    Channel(Writable),
    Memory,
    Counter,
}

impl Taker {
    /// ValueError for any other negative number.
    pub fn open(number: i32, is_socket: bool) -> PyResult<Self> {
        match number {
            MEMORY => Ok(Self::Memory),
            COUNTER => Ok(Self::Counter),
            0.. => Ok(Self::Channel(Writable::borrow(number, is_socket)?)),
            _ => Err(PyValueError::new_err("no descriptor")),
        }
    }

    pub fn target(&mut self) -> Target<'_> {
        match self {
            Self::Channel(channel) => Target::Channel(channel),
            Self::Memory => Target::Memory,
            Self::Counter => Target::Counter,
        }
    }
}
