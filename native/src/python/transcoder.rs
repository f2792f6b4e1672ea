//! The class `Transcoder`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::Progress;
use super::arguments::{self, Index, guarded, magic, part, part_mut, progress};
use super::buffers::Buffer;
use super::codecs;
use super::descriptors::Writable;
use super::isal;
use super::sources::Source;
use crate::layout::{BATCH_HEADER_SIZE, V1, V2};
use crate::{
    Channel, Codec, Compress, CompressionLevel, Entered, Limits, Recode, Recodes, Settings, Stretch,
};

/// Offset, timestamp, size, bytes before the key, key size.
type Head = (i64, i64, u64, u64, i32);

/// Bytes consumed and written, outcome, what the channel left of a chunk or memory took, the error.
type Transferred<'py> = (u64, u64, u8, Option<Bound<'py, PyBytes>>, i32);

/// In the place of a channel's descriptor: what is written is in the result.
const MEMORY: i32 = -1;

/// Target codec by source codec, whether fast, trim, split at gaps, body and inner sizes.
type RecodeArguments = (Vec<u8>, bool, bool, bool, Index, Index);

/// Reads entries of a log, or records of one decompressed batch, and converts them.
#[pyclass(module = "records._kernel")]
pub struct Transcoder {
    kernel: crate::Transcoder,
    /// What was wrong, and with the item at which index of the source buffer.
    damage: Option<(&'static str, usize)>,
}

#[pymethods]
#[allow(clippy::too_many_arguments)] // the contract's
impl Transcoder {
    #[new]
    fn new(
        to_magic: i64,
        first_offset: i64,
        pass_codecs: u8,
        stop_transactional: bool,
    ) -> PyResult<Self> {
        let to_magic = magic(to_magic, V2)?;
        let settings = Settings { to_magic, first_offset, pass_codecs, stop_transactional };
        Ok(Self { kernel: crate::Transcoder::new(settings), damage: None })
    }

    fn enter_batch(
        &mut self,
        header: &Bound<'_, PyAny>,
        at: Index,
        wrapper: bool,
        trim: bool,
        split_at_gaps: bool,
    ) -> PyResult<()> {
        let mut buffer = Buffer::default();
        let bytes = buffer.read(header)?;
        let header = bytes.get(at.0..).and_then(|bytes| bytes.first_chunk::<BATCH_HEADER_SIZE>());
        let header = header.ok_or_else(|| PyValueError::new_err("the header is not whole"))?;
        let entered = Entered { is_wrapper: wrapper, trim, split_at_gaps };
        self.kernel.enter_batch(header, entered);
        Ok(())
    }

    fn enter_entries(
        &mut self,
        to_magic: i64,
        offset_delta: i64,
        append_time: Option<i64>,
        wrapper: bool,
        trim: bool,
        split_at_gaps: bool,
    ) -> PyResult<()> {
        let to_magic = magic(to_magic, V1)?;
        let entered = Entered { is_wrapper: wrapper, trim, split_at_gaps };
        self.kernel.enter_entries(to_magic, offset_delta, append_time, entered);
        Ok(())
    }

    fn start_wrapper(&mut self) {
        self.kernel.start_wrapper();
    }

    fn allow_next(&mut self) {
        self.kernel.allow_next();
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

    fn measure_from(
        &mut self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        position: Index,
        end: Index,
        chunk_size: Index,
        room: Index,
        budget: Index,
    ) -> PyResult<Progress> {
        self.can_transfer()?;
        if chunk_size.0 == 0 {
            return Err(PyValueError::new_err("no chunk"));
        }
        let mut from = Source::default();
        let input = from.open(source, position, end)?;
        let stretch = Stretch {
            position: position.0 as u64,
            end: end.0 as u64,
            chunk_size: chunk_size.0,
            room: room.0 as u64,
            budget: budget.0 as u64,
        };
        let kernel = &mut self.kernel;
        codecs::with_workspace(|workspace| {
            let reached = guarded(py, || kernel.measure_from(&input, &stretch, workspace))?;
            self.damage = None;
            Ok(progress(reached))
        })
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

    #[allow(clippy::fn_params_excessive_bools)] // the contract's
    fn recode<'py>(
        &mut self,
        py: Python<'py>,
        source: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        codec: i64,
        fast: bool,
        trim: bool,
        split_at_gaps: bool,
        body_size_max: Index,
        inner_size_max: Index,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let codec = arguments::codec(codec).filter(|codec| *codec != Codec::Zstd);
        let codec =
            codec.ok_or_else(|| PyValueError::new_err("older messages have no such codec"))?;
        if !self.kernel.stands_in_log() {
            return Err(PyValueError::new_err("no entry of a log is next"));
        }
        let mut buffer = Buffer::default();
        let entry = part(buffer.read(source)?, start, end)?;
        let level = if fast { CompressionLevel::Fast } else { CompressionLevel::Kafka };
        let job = Recode {
            codec,
            level,
            trim,
            split_at_gaps,
            body_size_max: body_size_max.0,
            inner_size_max: inner_size_max.0,
            made_size_max: usize::MAX,
        };
        let isal = if fast && codec == Codec::Gzip { isal::find(py) } else { None };
        let kernel = &mut self.kernel;
        codecs::with_workspace(|workspace| {
            let recoded = guarded(py, || match isal {
                Some(isal) => {
                    let mut compress =
                        |data: &[u8], target: &mut Vec<u8>| isal::compress(isal, data, target);
                    kernel.recode(entry, &job, workspace, Some(&mut compress))
                }
                None => kernel.recode(entry, &job, workspace, None),
            })?;
            self.damage = None;
            Ok(recoded.map(|()| PyBytes::new(py, workspace.made())))
        })
    }

    #[pyo3(signature = (source, position, end, chunk_size, channel, is_socket, promised, budget,
        recodes=None))]
    fn transfer<'py>(
        &mut self,
        py: Python<'py>,
        source: &Bound<'_, PyAny>,
        position: Index,
        end: Index,
        chunk_size: Index,
        channel: i32,
        is_socket: bool,
        promised: Index,
        budget: Index,
        recodes: Option<RecodeArguments>,
    ) -> PyResult<Transferred<'py>> {
        self.can_transfer()?;
        if chunk_size.0 == 0 || channel < MEMORY {
            return Err(PyValueError::new_err("no chunk, or no channel"));
        }
        let mut from = Source::default();
        let input = from.open(source, position, end)?;
        let limits = Limits {
            position: position.0 as u64,
            end: end.0 as u64,
            chunk_size: chunk_size.0,
            promised: promised.0 as u64,
            budget: budget.0 as u64,
        };
        let recodes = recodes.map(recodes_of).transpose()?;
        let isal = match &recodes {
            Some(recodes) if recodes.level == CompressionLevel::Fast => isal::find(py),
            _ => None,
        };
        let mut memory = Vec::new();
        let mut writable = None;
        if channel != MEMORY {
            writable = Some(Writable::borrow(channel, is_socket)?);
        }
        let kernel = &mut self.kernel;
        codecs::with_workspace(|workspace| {
            let done = guarded(py, || {
                let mut compress = |data: &[u8], target: &mut Vec<u8>| {
                    isal.and_then(|isal| isal::compress(isal, data, target))
                };
                let gzip: Option<Compress<'_>> =
                    if isal.is_some() { Some(&mut compress) } else { None };
                let recodes = recodes.as_ref();
                let channel: &mut dyn Channel = match &mut writable {
                    Some(writable) => writable,
                    None => &mut memory,
                };
                kernel.transfer(&input, channel, &limits, recodes, gzip, workspace)
            })?;
            self.damage = None;
            let rest = if writable.is_some() { workspace.rest() } else { &memory };
            let rest = (!rest.is_empty()).then(|| PyBytes::new(py, rest));
            let error = done.error.and_then(|error| error.raw_os_error()).unwrap_or(0);
            Ok((done.consumed, done.written, done.outcome as u8, rest, error))
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

    fn can_transfer(&self) -> PyResult<()> {
        if !self.kernel.stands_in_log_or_its_batch() {
            return Err(PyValueError::new_err("it stands in what was entered"));
        }
        self.can_convert()
    }

    #[inline]
    fn note_damage(&mut self, start: Index) {
        self.damage = self.kernel.damage().map(|(reason, at)| (reason.text(), start.0 + at));
    }
}

fn recodes_of(arguments: RecodeArguments) -> PyResult<Recodes> {
    let (codecs, fast, trim, split_at_gaps, body_size_max, inner_size_max) = arguments;
    let mut targets = [None; Recodes::CODECS];
    if codecs.len() > targets.len() {
        return Err(PyValueError::new_err("there are no more than eight codecs"));
    }
    for (target, codec) in targets.iter_mut().zip(codecs) {
        *target = Codec::of(codec).filter(|codec| *codec != Codec::Zstd);
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
