//! Checks arguments from Python, and converts results.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::buffers::Buffer;
use super::descriptors::{Readable, Writable};
use crate::codec::Codec;
use crate::layout::ROW_SIZE;
use crate::rows;
use crate::{CompressionLevel, Input, Progress, Recodes, Target};

/// A position, size or limit: a non-negative integer. ValueError for others.
#[derive(Clone, Copy)]
pub struct Index(pub usize);

impl<'a, 'py> FromPyObject<'a, 'py> for Index {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<isize>() {
            Ok(index) if index >= 0 => Ok(Self(index as usize)),
            Ok(_) => Err(outside()),
            Err(error) => Err(too_large(object.py(), error)),
        }
    }
}

#[cold]
fn too_large(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py) { outside() } else { error }
}

#[cold]
fn outside() -> PyErr {
    PyValueError::new_err("an index is outside of its buffer")
}

/// Rows, and the source that they point into.
#[derive(Default)]
pub struct RowsAndSource {
    rows: Buffer,
    source: Buffer,
}

impl RowsAndSource {
    /// The rows of the bytes `rows[start:end]`, and the bytes of the source.
    #[inline]
    pub fn read(
        &mut self,
        rows: &Bound<'_, PyAny>,
        range: (Index, Index),
        source: &Bound<'_, PyAny>,
    ) -> PyResult<(&[[u8; ROW_SIZE]], &[u8])> {
        let rows = part(self.rows.read(rows)?, range.0, range.1)?;
        let rows = rows::of(rows).map_err(PyValueError::new_err)?;
        Ok((rows, self.source.read(source)?))
    }
}

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

/// In place of a channel's descriptor: the bytes made are in the result.
const MEMORY: i32 = -1;
/// In place of a channel's descriptor: messages are only counted.
const COUNTER: i32 = -2;

/// The target of that number. `channel`: room for a borrowed channel. ValueError for any other
/// negative number.
pub fn target(
    number: i32,
    is_socket: bool,
    channel: &mut Option<Writable>,
) -> PyResult<Target<'_>> {
    match number {
        MEMORY => Ok(Target::Memory),
        COUNTER => Ok(Target::Counter),
        0.. => Ok(Target::Channel(channel.insert(Writable::borrow(number, is_socket)?))),
        _ => Err(PyValueError::new_err("no descriptor")),
    }
}

/// `bytes[start:end]`.
#[inline]
pub fn part(bytes: &[u8], start: Index, end: Index) -> PyResult<&[u8]> {
    bytes.get(start.0..end.0).ok_or_else(outside)
}

/// `bytes[start:end]`, for writing.
#[inline]
pub fn part_mut(bytes: &mut [u8], start: Index, end: Index) -> PyResult<&mut [u8]> {
    bytes.get_mut(start.0..end.0).ok_or_else(outside)
}

/// A message format, at most `highest`. ValueError for others.
pub fn magic(magic: i64, highest: u8) -> PyResult<u8> {
    let magic = u8::try_from(magic).ok().filter(|magic| *magic <= highest);
    magic.ok_or_else(|| PyValueError::new_err("no such format to write"))
}

/// A codec by its number in a batch's attributes. None if there is no such codec.
pub fn codec(number: i64) -> Option<Codec> {
    u8::try_from(number).ok().and_then(Codec::of)
}

/// In place of a target codec: leave messages uncompressed.
const PLAIN: u8 = 255;

/// Target codec by source codec, whether fast, trim, split at gaps, body and inner sizes.
pub type RecodesArgument = (Vec<u8>, bool, bool, bool, Index, Index);

/// How to recode compressed entries. ValueError if there are more than eight codecs.
pub fn recodes(argument: RecodesArgument) -> PyResult<Recodes> {
    let (codecs, fast, trim, split_at_gaps, body_size_max, inner_size_max) = argument;
    let mut targets = [None; Recodes::CODECS];
    if codecs.len() > targets.len() {
        return Err(PyValueError::new_err("there are no more than eight codecs"));
    }
    for (target, codec) in targets.iter_mut().zip(codecs) {
        let known = Codec::of(codec).filter(|codec| *codec != Codec::Zstd);
        *target = if codec == PLAIN { Some(None) } else { known.map(Some) };
    }
    Ok(Recodes {
        targets,
        level: if fast { CompressionLevel::Fast } else { CompressionLevel::Kafka },
        trim,
        split_at_gaps,
        body_size_max: body_size_max.0,
        inner_size_max: inner_size_max.0,
    })
}

#[inline]
pub fn progress(progress: Progress) -> (u64, u64, u8) {
    (progress.consumed, progress.produced, progress.outcome.number())
}

/// Runs the kernel without the interpreter's lock. A panic is a defect of the kernel, and becomes a
/// RuntimeError that says so.
#[inline]
pub fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(defect)
}

#[cold]
fn defect(panic: Box<dyn Any + Send>) -> PyErr {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "panic",
    };
    PyRuntimeError::new_err(format!("kernel defect: {text}"))
}
