//! Logs that calls read by position: files, or their bytes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arguments::{Index, part};
use super::buffers::Buffer;
use super::descriptors::Readable;
use crate::Input;

/// A borrowed source argument.
#[derive(Default)]
pub struct Source {
    buffer: Buffer,
    file: Option<Readable>,
}

impl Source {
    /// A file by its descriptor, or its bytes, which must contain the position.
    pub fn open(
        &mut self,
        source: &Bound<'_, PyAny>,
        position: Index,
        end: Index,
    ) -> PyResult<Input<'_>> {
        if position.0 > end.0 {
            return Err(PyValueError::new_err("the end is before the position"));
        }
        if let Ok(descriptor) = source.extract::<i32>() {
            return Ok(Input::File(self.file.insert(Readable::borrow(descriptor)?)));
        }
        let bytes = self.buffer.read(source)?;
        part(bytes, position, Index(bytes.len()))?;
        Ok(Input::Mapped(bytes))
    }
}
