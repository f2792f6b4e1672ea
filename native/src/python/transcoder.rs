//! The class `Transcoder`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::Progress;
use super::arguments::{self, Index, RecodesArgument, guarded, magic, part, part_mut, progress};
use super::buffers::Buffer;
use super::codecs;
use super::isal;
use super::sources::Source;
use super::targets::Taker;
use crate::layout::{BATCH_HEADER_SIZE, V1, V2};
use crate::{Codec, Compress, CompressionLevel, Limits, Outcome, Recodes, Settings};

/// Offset, timestamp, size, bytes before the key, key size.
type Head = (i64, i64, u64, u64, i32);

/// Bytes consumed and written, outcome, bytes (the rest that the channel did not take, or all bytes
/// made for memory), error.
type Advanced<'py> = (u64, u64, u8, Option<Bound<'py, PyBytes>>, i32);

/// Reads entries of a log, or records of one decompressed batch, and converts them.
#[pyclass(module = "records._kernel")]
pub struct Transcoder {
    kernel: crate::Transcoder,
    /// The last damage: its reason, and the index of the item in the source buffer.
    damage: Option<(&'static str, usize)>,
    /// Whether messages are compressed at the level `Fast`.
    is_fast: bool,
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
        let is_fast = recodes.level == CompressionLevel::Fast;
        Ok(Self { kernel: crate::Transcoder::new(settings), damage: None, is_fast })
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
        self.note_damage(start);
        Ok(progress(reached))
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
        self.note_damage(start);
        Ok(progress(reached))
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
        self.note_damage(start);
        Ok(progress(reached))
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
        if !self.kernel.stands_in_log() {
            return Err(PyValueError::new_err("no entry of a log is next"));
        }
        let mut buffer = Buffer::default();
        let entry = part(buffer.read(source)?, start, end)?;
        let isal = if self.is_fast && codec == Codec::Gzip { isal::find(py) } else { None };
        let kernel = &mut self.kernel;
        codecs::with_workspace(|workspace| {
            let recoded = guarded(py, || {
                with_compressor(isal, |gzip| kernel.recode(entry, codec, workspace, gzip))
            })?;
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
        if !self.kernel.stands_in_log_or_its_batch() {
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
        let isal = if self.is_fast { isal::find(py) } else { None };
        let mut taker = Taker::open(target, is_socket)?;
        let kernel = &mut self.kernel;
        codecs::with_workspace(|workspace| {
            let done = guarded(py, || {
                with_compressor(isal, |gzip| {
                    kernel.advance(&input, taker.target(), &limits, gzip, workspace)
                })
            })?;
            let is_damaged = done.outcome == Outcome::Damage;
            let reason = if is_damaged { kernel.damage() } else { None };
            let at = position.0 + done.consumed as usize;
            self.damage = reason.map(|(reason, _)| (reason.text(), at));
            let bytes = workspace.rest();
            let bytes = (!bytes.is_empty()).then(|| PyBytes::new(py, bytes));
            let error = done.error.and_then(|error| error.raw_os_error()).unwrap_or(0);
            Ok((done.consumed, done.written, done.outcome as u8, bytes, error))
        })
    }

    fn record_head(
        &mut self,
        source: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        remaining: Index,
    ) -> PyResult<Option<Head>> {
        if !self.kernel.stands_in_batch() {
            return Err(PyValueError::new_err("it stands in no batch"));
        }
        self.can_convert()?;
        let mut buffer = Buffer::default();
        let window = part(buffer.read(source)?, start, end)?;
        let head = self.kernel.record_head(window, remaining.0 as u64);
        self.note_damage(start);
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
    fn damage(&self) -> Option<(&'static str, usize)> {
        self.damage
    }

    #[getter]
    fn in_batch(&self) -> bool {
        self.kernel.in_batch()
    }

    #[getter]
    fn append_time(&self) -> Option<i64> {
        self.kernel.append_time()
    }

    #[getter]
    fn totals(&self) -> (u64, u64, u64, u64, u64) {
        self.kernel.totals()
    }

    #[getter]
    fn decompressed(&self) -> u64 {
        self.kernel.decompressed()
    }

    #[getter]
    fn wrapper(&self) -> (u64, i64, i64, i64, u64) {
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
    fn note_damage(&mut self, start: Index) {
        self.damage = self.kernel.damage().map(|(reason, at)| (reason.text(), start.0 + at));
    }
}

/// Calls `work` with isal as the compressor of gzip, if it is installed.
fn with_compressor<T>(
    isal: Option<&'static Py<PyAny>>,
    work: impl FnOnce(Option<Compress<'_>>) -> T,
) -> T {
    let Some(isal) = isal else {
        return work(None);
    };
    work(Some(&mut |data, target| isal::compress(isal, data, target)))
}
