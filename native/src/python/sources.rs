//! Logs that calls read at positions: files, or their bytes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arguments::{self, Index, guarded, part};
use super::buffers::Buffer;
use super::codecs;
use super::descriptors::Readable;
use crate::{Alike, Input};

/// What an argument is while it is borrowed.
#[derive(Default)]
pub struct Source {
    buffer: Buffer,
    file: Option<Readable>,
}

impl Source {
    /// A file by its descriptor, or its bytes, in which the range must be.
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
        part(bytes, position, end)?;
        Ok(Input::Mapped(bytes))
    }
}

/// Batches that are compressed with a codec, and alike: how many there are, and their bytes.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's
pub fn count_alike(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    position: Index,
    end: Index,
    codec: i64,
    first_offset: i64,
    size_max: Index,
    count_max: Index,
) -> PyResult<(u64, u64)> {
    let codec = arguments::codec(codec);
    let codec = codec.ok_or_else(|| PyValueError::new_err("there is no such codec"))?;
    let mut from = Source::default();
    let input = from.open(source, position, end)?;
    let wanted = Alike {
        position: position.0 as u64,
        end: end.0 as u64,
        codec,
        first_offset,
        size_max: size_max.0 as u64,
        count_max: count_max.0 as u64,
    };
    codecs::with_workspace(|workspace| {
        guarded(py, || crate::count_alike(&input, &wanted, workspace))
    })
}
