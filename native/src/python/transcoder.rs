//! The class `Transcoder`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::Progress;
use super::arguments::{
    self, Index, RecodesArgument, Source, guarded, magic, part, part_mut, progress,
};
use super::buffers::Buffer;
use super::codecs;
use crate::layout::{BATCH_HEADER_SIZE, V1, V2};
use crate::{Codec, Limits, Outcome, Place, Recodes, Settings};

/// The reason, and the index of the item in the source buffer.
type Damage = (&'static str, usize);

/// Offset, timestamp, size, bytes before the key, key size.
type Head = (i64, i64, u64, u64, i32);

/// Bytes consumed and written, outcome, bytes (the rest that the channel did not take, or all bytes
/// made for memory), error.
type Advanced<'py> = (u64, u64, u8, Option<Bound<'py, PyBytes>>, i32);

/// Reads entries of a log, or records of one decompressed batch, and converts them.
#[pyclass(module = "records._kernel")]
pub struct Transcoder {
    kernel: crate::Transcoder,
    /// The error of the last call.
    damage: Option<Damage>,
}

#[pymethods]
#[allow(clippy::too_many_arguments)] // the contract has them
impl Transcoder {
    #[new]
    #[pyo3(signature = (to_magic, first_offset, pass_codecs, stop_transactional, recodes=None))]
    fn new(
        to_magic: i64,
        first_offset: i64,
        pass_codecs: u8,
        stop_transactional: bool,
        recodes: Option<RecodesArgument>,
    ) -> PyResult<Self> {
        let to_magic = magic(to_magic, V2)?;
        let recodes = recodes.map_or(Ok(Recodes::NONE), arguments::recodes)?;
        let settings =
            Settings { to_magic, first_offset, pass_codecs, stop_transactional, recodes };
        Ok(Self { kernel: crate::Transcoder::new(settings), damage: None })
    }

    #[pyo3(signature = (header, at, is_wrapper=false))]
    fn enter_batch(
        &mut self,
        header: &Bound<'_, PyAny>,
        at: Index,
        is_wrapper: bool,
    ) -> PyResult<()> {
        let mut buffer = Buffer::default();
        let bytes = buffer.read(header)?;
        let header = bytes.get(at.0..).and_then(|bytes| bytes.first_chunk::<BATCH_HEADER_SIZE>());
        let header = header.ok_or_else(|| PyValueError::new_err("the header is not whole"))?;
        self.kernel.enter_batch(header, is_wrapper);
        Ok(())
    }

    #[pyo3(signature = (to_magic, offset_delta, append_time, is_wrapper=false))]
    fn enter_entries(
        &mut self,
        to_magic: i64,
        offset_delta: i64,
        append_time: Option<i64>,
        is_wrapper: bool,
    ) -> PyResult<()> {
        let to_magic = magic(to_magic, V1)?;
        self.kernel.enter_entries(to_magic, offset_delta, append_time, is_wrapper);
        Ok(())
    }

    fn start_wrapper(&mut self) {
        self.kernel.start_wrapper();
    }

    fn accept_next_entry(&mut self) {
        self.kernel.accept_next_entry();
    }

    fn leave(&mut self) {
        self.kernel.leave();
    }

    fn transcode(
        &mut self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        remaining: Index,
        target: &Bound<'_, PyAny>,
        at: Index,
        limit: Index,
    ) -> PyResult<Progress> {
        self.can_convert()?;
        let (mut source_buffer, mut target_buffer) = (Buffer::default(), Buffer::default());
        let source = source_buffer.read(source)?;
        let target = target_buffer.write(target, &[source])?;
        let window = part(source, start, end)?;
        let target = part_mut(target, at, limit)?;
        let kernel = &mut self.kernel;
        let reached = guarded(py, || kernel.transcode(window, remaining.0 as u64, target))?;
        Ok(self.progress(reached, start))
    }

    fn measure(
        &mut self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        remaining: Index,
        room: Index,
    ) -> PyResult<Progress> {
        self.can_convert()?;
        let mut buffer = Buffer::default();
        let window = part(buffer.read(source)?, start, end)?;
        let kernel = &mut self.kernel;
        let reached = guarded(py, || kernel.measure(window, remaining.0 as u64, room.0 as u64))?;
        Ok(self.progress(reached, start))
    }

    fn columns(
        &mut self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        remaining: Index,
        target: &Bound<'_, PyAny>,
        at: Index,
        limit: Index,
    ) -> PyResult<Progress> {
        let (mut source_buffer, mut target_buffer) = (Buffer::default(), Buffer::default());
        let source = source_buffer.read(source)?;
        let target = target_buffer.write(target, &[source])?;
        let window = part(source, start, end)?;
        let target = part_mut(target, at, limit)?;
        let kernel = &mut self.kernel;
        let reached = guarded(py, || kernel.columns(source, window, remaining.0 as u64, target))?;
        Ok(self.progress(reached, start))
    }

    fn recode<'py>(
        &mut self,
        py: Python<'py>,
        source: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        codec: i64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let codec = arguments::codec(codec).filter(|codec| *codec != Codec::Zstd);
        let codec =
            codec.ok_or_else(|| PyValueError::new_err("older messages have no such codec"))?;
        if self.kernel.place != Place::Log {
            return Err(PyValueError::new_err("no entry of a log is next"));
        }
        let mut buffer = Buffer::default();
        let entry = part(buffer.read(source)?, start, end)?;
        let kernel = &mut self.kernel;
        codecs::with_workspace(|workspace| {
            let recoded = guarded(py, || kernel.recode(entry, codec, workspace))?;
            self.damage = None;
            Ok(recoded.map(|()| PyBytes::new(py, workspace.made())))
        })
    }

    /// `target`: a descriptor, `MEMORY` or `COUNTER`.
    fn advance<'py>(
        &mut self,
        py: Python<'py>,
        source: &Bound<'_, PyAny>,
        position: Index,
        end: Index,
        chunk_size: Index,
        target: i32,
        is_socket: bool,
        room: Index,
        budget: Index,
    ) -> PyResult<Advanced<'py>> {
        if !matches!(self.kernel.place, Place::Log | Place::LogBatch) {
            return Err(PyValueError::new_err("advance is only valid in a log"));
        }
        self.can_convert()?;
        if chunk_size.0 == 0 {
            return Err(PyValueError::new_err("no chunk"));
        }
        let mut from = Source::default();
        let input = from.open(source, position, end)?;
        let limits = Limits {
            position: position.0 as u64,
            end: end.0 as u64,
            chunk_size: chunk_size.0,
            room: room.0 as u64,
            budget: budget.0 as u64,
        };
        let mut channel = None;
        let target = arguments::target(target, is_socket, &mut channel)?;
        let kernel = &mut self.kernel;
        codecs::with_workspace(|workspace| {
            let done = guarded(py, || kernel.advance(&input, target, &limits, workspace))?;
            self.damage = damage(done.outcome, position, done.consumed);
            let bytes = workspace.rest();
            let bytes = (!bytes.is_empty()).then(|| PyBytes::new(py, bytes));
            let error = done.error.and_then(|error| error.raw_os_error()).unwrap_or(0);
            Ok((done.consumed, done.written, done.outcome.number(), bytes, error))
        })
    }

    fn record_head(
        &mut self,
        source: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        remaining: Index,
    ) -> PyResult<Option<Head>> {
        if !self.kernel.place.is_batch() {
            return Err(PyValueError::new_err("it stands in no batch"));
        }
        self.can_convert()?;
        let mut buffer = Buffer::default();
        let window = part(buffer.read(source)?, start, end)?;
        let found = self.kernel.record_head(window, remaining.0 as u64);
        self.damage = found.err().and_then(|outcome| damage(outcome, start, 0));
        let head = found.ok();
        Ok(head
            .map(|head| (head.offset, head.timestamp, head.size, head.before_key, head.key_size)))
    }

    fn record_converted(
        &mut self,
        source_size: Index,
        offset: i64,
        timestamp: i64,
        message_size: Index,
    ) -> PyResult<()> {
        let (source_size, message_size) = (source_size.0 as u64, message_size.0 as u64);
        if !self.kernel.record_converted(source_size, offset, timestamp, message_size) {
            return Err(PyValueError::new_err("no item of that size is at the position reached"));
        }
        Ok(())
    }

    #[getter]
    fn damage(&self) -> Option<Damage> {
        self.damage
    }

    #[getter]
    fn in_batch(&self) -> bool {
        self.kernel.has_record_next()
    }

    #[getter]
    fn append_time(&self) -> Option<i64> {
        self.kernel.append_time()
    }

    #[getter]
    fn totals(&self) -> (u64, u64, u64, u64) {
        self.kernel.totals()
    }

    #[getter]
    fn wrapper(&self) -> (u64, i64, i64, i64) {
        self.kernel.wrapper()
    }

    #[getter]
    fn last_offset(&self) -> i64 {
        self.kernel.last_offset()
    }
}

impl Transcoder {
    #[inline]
    fn can_convert(&self) -> PyResult<()> {
        if self.kernel.can_convert() {
            return Ok(());
        }
        Err(PyValueError::new_err("records of a batch become no messages of magic 2"))
    }

    #[inline]
    fn progress(&mut self, reached: crate::Progress, start: Index) -> Progress {
        self.damage = damage(reached.outcome, start, reached.consumed);
        progress(reached)
    }
}

/// The reason of damage, and its index after `consumed` bytes.
#[inline]
fn damage(outcome: Outcome, start: Index, consumed: u64) -> Option<Damage> {
    match outcome {
        Outcome::Damage(reason) => Some((reason.text(), start.0 + consumed as usize)),
        _ => None,
    }
}
