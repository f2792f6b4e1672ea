//! Entries and rows to `Record`s (`records/kernel.py`, ReadEntries, MakeRecords and
//! MakeInnerRecords).
//!
//! Small neighbours share the bytes that they are made of: a record alone then keeps no more than
//! `SHARED_SIZE` of others in memory. A larger one has its own.

#![allow(unsafe_code)]

use std::cell::Cell;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::arguments::{Index, guarded, part};
use super::buffers::Buffer;
use super::record::{self, Fields, Made, Place, Record, Shared};
use crate::crc32;
use crate::item::TIMESTAMP_TYPE_NONE;
use crate::layout::{CRC_AT_LEGACY, MAGIC_AT, PREFIX_SIZE, ROW_SIZE, SIZE_FIELD_SIZE, V0};
use crate::read::{self, RECORDS_ENOUGH, Reading, Wanted};
use crate::rows::{self, Refusal};

/// As `records/kernel.py` has it: a page, which costs nothing beside a window.
const SHARED_SIZE: usize = 4096;
/// A smaller entry is read faster than other threads are let run.
const LOCKED_SIZE_MAX: usize = 8192;
const SEQUENCE_MAX: i64 = i32::MAX as i64;
const NO_SEQUENCE: i64 = -1;
const NO_TIMESTAMP: i64 = -1;
const NOT_MESSAGES: Refusal = "rows are not those of the messages";

thread_local! {
    /// Taken while it is used: making objects may run any Python code, which may read, too.
    static READING: Cell<Option<Box<Reading>>> = const { Cell::new(None) };
}

/// The records of as many ordinary entries as are whole, and the bytes of source consumed.
#[pyfunction]
pub fn read_entries<'py>(
    py: Python<'py>,
    source: &Bound<'_, PyAny>,
    start: Index,
    end: Index,
    verify: bool,
    control: bool,
    size_max: Index,
) -> PyResult<(Bound<'py, PyList>, usize)> {
    let mut buffer = Buffer::new();
    let window = part(buffer.read(source)?, start, end)?;
    let wanted = Wanted { verify, control, body_size_max: size_max.0 };
    let mut reading = READING.take().unwrap_or_default();
    let mut made = Vec::new();
    let (mut consumed, mut decompressed) = (0, 0);
    while made.len() < RECORDS_ENOUGH && decompressed < size_max.0 {
        let Some(entry) = read::first_entry(&window[consumed..]) else {
            break;
        };
        let bases = if entry.len() < LOCKED_SIZE_MAX {
            reading.read(entry, &wanted)
        } else {
            guarded(py, || reading.read(entry, &wanted))?
        };
        let Some(bases) = bases else {
            break;
        };
        let body = reading.body();
        decompressed += body.map_or(0, <[u8]>::len);
        let mut records = Records::new(py, body.unwrap_or(entry), made);
        let rows = rows::of(reading.rows()).map_err(PyValueError::new_err)?;
        records.add_batch(rows, bases.offset, i64::from(bases.sequence))?;
        made = records.made()?;
        consumed += entry.len();
    }
    reading.trim();
    READING.set(Some(reading));
    Ok((PyList::new(py, made)?, consumed))
}

/// Records of a v2 batch, or messages of a log.
#[pyfunction]
pub fn make_records<'py>(
    py: Python<'py>,
    rows: &Bound<'_, PyAny>,
    rows_start: Index,
    rows_end: Index,
    source: &Bound<'_, PyAny>,
    base_offset: i64,
    base_sequence: i64,
) -> PyResult<Bound<'py, PyList>> {
    let (mut rows_buffer, mut source_buffer) = (Buffer::new(), Buffer::new());
    let rows = part(rows_buffer.read(rows)?, rows_start, rows_end)?;
    let rows = rows::of(rows).map_err(PyValueError::new_err)?;
    let mut records = Records::new(py, source_buffer.read(source)?, Vec::new());
    records.add_batch(rows, base_offset, base_sequence)?;
    PyList::new(py, records.made()?)
}

/// Messages inside of a compressed one, the first of which is at `at` of the source: those before
/// the first whose checksum is wrong, and where that is, or where they end.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's
pub fn make_inner_records<'py>(
    py: Python<'py>,
    rows: &Bound<'_, PyAny>,
    rows_start: Index,
    rows_end: Index,
    source: &Bound<'_, PyAny>,
    at: Index,
    timestamp_type: i64,
    verify: bool,
) -> PyResult<(Bound<'py, PyList>, usize)> {
    let timestamp_type = i64::from(record::timestamp_type_of(timestamp_type)?);
    let (mut rows_buffer, mut source_buffer) = (Buffer::new(), Buffer::new());
    let rows = part(rows_buffer.read(rows)?, rows_start, rows_end)?;
    let rows = rows::of(rows).map_err(PyValueError::new_err)?;
    let mut records = Records::new(py, source_buffer.read(source)?, Vec::new());
    let mut at = at.0;
    for row in rows {
        let rest = records.source.get(at..).unwrap_or_default();
        let message = message(rest).ok_or_else(|| PyValueError::new_err(NOT_MESSAGES))?;
        if verify && !is_sound(message) {
            break;
        }
        at += message.len();
        let mut found = Row::read(row, records.source).map_err(PyValueError::new_err)?;
        found.timestamp_type = timestamp_type;
        if message[MAGIC_AT] == V0 {
            found.timestamp = NO_TIMESTAMP;
            found.timestamp_type = i64::from(TIMESTAMP_TYPE_NONE);
        }
        records.add(found)?;
    }
    Ok((PyList::new(py, records.made()?)?, at))
}

/// The message that bytes begin with.
fn message(bytes: &[u8]) -> Option<&[u8]> {
    let size = bytes.get(PREFIX_SIZE - SIZE_FIELD_SIZE..)?.first_chunk()?;
    let size = usize::try_from(i32::from_be_bytes(*size)).ok()?;
    let message = bytes.get(..PREFIX_SIZE.checked_add(size)?)?;
    (message.len() > MAGIC_AT).then_some(message)
}

/// Whether a message has the checksum that it says.
fn is_sound(message: &[u8]) -> bool {
    let said = message[CRC_AT_LEGACY..].first_chunk().map(|crc| u32::from_be_bytes(*crc));
    said == Some(crc32(0, &message[MAGIC_AT..]))
}

/// A row, whose positions are in the source.
struct Row {
    offset: i64,
    timestamp: i64,
    timestamp_type: i64,
    sequence: i64,
    key: Span,
    value: Span,
    headers: Span,
    headers_count: i32,
    /// From the first to the last byte of them.
    first: usize,
    last: usize,
}

/// Bytes of the source. Without a size they are null.
#[derive(Clone, Copy)]
struct Span {
    at: usize,
    size: Option<usize>,
}

impl Row {
    #[inline(always)]
    fn read(row: &[u8; ROW_SIZE], source: &[u8]) -> Result<Self, Refusal> {
        let fields = rows::fields(row);
        let (_, headers_count) = rows::headers_of(&fields, source)?;
        let mut first = usize::MAX;
        let mut last = 0;
        let mut span = |index: usize| {
            let field = rows::field_of(source, fields[index], fields[index + 1])?;
            if field.size < 0 {
                return Ok(Span { at: 0, size: None });
            }
            let at = fields[index] as usize;
            first = first.min(at);
            last = last.max(at + field.bytes.len());
            Ok(Span { at, size: Some(field.bytes.len()) })
        };
        let (key, value, headers) = (span(3)?, span(5)?, span(7)?);
        Ok(Self {
            offset: fields[0],
            timestamp: fields[1],
            timestamp_type: fields[2],
            sequence: NO_SEQUENCE,
            key,
            value,
            headers,
            headers_count,
            first,
            last,
        })
    }
}

/// Records as they are made. Small ones wait until the bytes that they share are complete.
struct Records<'py, 'a> {
    py: Python<'py>,
    source: &'a [u8],
    waiting: Vec<Row>,
    made: Vec<Bound<'py, Record>>,
}

impl<'py, 'a> Records<'py, 'a> {
    /// `made`: records that come before these.
    fn new(py: Python<'py>, source: &'a [u8], made: Vec<Bound<'py, Record>>) -> Self {
        Self { py, source, waiting: Vec::new(), made }
    }

    /// The records of a batch. `base_sequence` is the sequence number at `base_offset`, or -1.
    fn add_batch(
        &mut self,
        rows: &[[u8; ROW_SIZE]],
        base_offset: i64,
        base_sequence: i64,
    ) -> PyResult<()> {
        self.made.reserve(rows.len()); // which are there
        for row in rows {
            let mut found = Row::read(row, self.source).map_err(PyValueError::new_err)?;
            found.timestamp_type = i64::from(record::timestamp_type_of(found.timestamp_type)?);
            if base_sequence != NO_SEQUENCE {
                let delta = found.offset.wrapping_sub(base_offset);
                found.sequence = base_sequence.wrapping_add(delta) & SEQUENCE_MAX;
            }
            self.add(found)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn add(&mut self, row: Row) -> PyResult<()> {
        let shared_from = self.waiting.first().map_or(row.first, |first| first.first);
        if row.first < shared_from || row.last - shared_from > SHARED_SIZE {
            self.make_waiting()?;
            if row.last - row.first > SHARED_SIZE {
                return self.make_large(&row);
            }
        }
        self.waiting.push(row);
        Ok(())
    }

    fn make_waiting(&mut self) -> PyResult<()> {
        let (Some(start), Some(end)) = (
            self.waiting.first().map(|row| row.first),
            self.waiting.iter().map(|row| row.last).max(),
        ) else {
            return Ok(());
        };
        let bytes = PyBytes::new(self.py, &self.source[start..end]).unbind();
        let place = |span: Span| match span.size {
            // SHARED_SIZE bounds both.
            Some(size) => Place { at: (span.at - start) as u32, size: size as i32 },
            None => Place { at: 0, size: -1 },
        };
        for row in self.waiting.drain(..) {
            let shared = Shared {
                bytes: bytes.clone_ref(self.py),
                key: place(row.key),
                value: place(row.value),
                headers: place(row.headers),
                headers_count: row.headers_count,
            };
            self.made.push(new(self.py, &row, Fields::Shared(shared))?);
        }
        Ok(())
    }

    fn make_large(&mut self, row: &Row) -> PyResult<()> {
        let field = |span: Span| match span.size {
            Some(size) => {
                PyBytes::new(self.py, &self.source[span.at..][..size]).into_any().unbind()
            }
            None => self.py.None(),
        };
        let headers = &self.source[row.headers.at..][..row.headers.size.unwrap_or(0)];
        let made = Made {
            key: field(row.key),
            value: field(row.value),
            headers: record::headers(self.py, headers, row.headers_count)?.into_any().unbind(),
        };
        self.made.push(new(self.py, row, Fields::Made(Box::new(made)))?);
        Ok(())
    }

    fn made(mut self) -> PyResult<Vec<Bound<'py, Record>>> {
        self.make_waiting()?;
        Ok(self.made)
    }
}

#[inline(always)]
fn new<'py>(py: Python<'py>, row: &Row, fields: Fields) -> PyResult<Bound<'py, Record>> {
    let record = Record {
        offset: row.offset,
        timestamp: row.timestamp,
        sequence: row.sequence,
        timestamp_type: row.timestamp_type as i8, // it was checked
        fields,
    };
    let record = Bound::new(py, record)?;
    // SAFETY: the object is alive and complete. The collector need not look at it: it refers to
    // bytes, and to tuples of bytes and text, which refer to nothing that could refer to it. To
    // untrack an object twice, as its deallocation does, is allowed.
    unsafe { ffi::PyObject_GC_UnTrack(record.as_ptr().cast()) };
    Ok(record)
}
