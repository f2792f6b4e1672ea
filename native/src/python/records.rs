//! Entries and rows to `Record`s, and a batch to a summary (`records/kernel_functions.py`,
//! ReadEntries, MakeRecords, MakeInnerRecords and SummarizeBatch).
//!
//! The records keep nothing of the source, and no record keeps another one's bytes.

#![allow(unsafe_code)]

use std::cell::Cell;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::arguments::{Index, RowsAndSource, guarded, part};
use super::buffers::Buffer;
use super::record::{self, Headers, Record};
use crate::crc32;
use crate::header::Header;
use crate::item::TIMESTAMP_TYPE_NONE;
use crate::layout::{
    ATTRIBUTES_AT_BATCH, BASE_SEQUENCE_AT, BATCH_HEADER_SIZE, CRC_AT_BATCH, CRC_AT_LEGACY,
    LEADER_EPOCH_AT, MAGIC_AT, PREFIX_SIZE, PRODUCER_EPOCH_AT, PRODUCER_ID_AT, ROW_SIZE,
    SIZE_FIELD_SIZE, V0, V2,
};
use crate::message::{bytes_at, prefix};
use crate::read::{self, Entry, RECORDS_ENOUGH, Rows, Wanted};
use crate::rows::{self, Refusal};
use crate::sink::Summary;
use crate::workspace::trim;

/// Reading a smaller entry takes less time than releasing the interpreter's lock.
const LOCKED_SIZE_MAX: usize = 8192;
const SEQUENCE_MAX: i64 = i32::MAX as i64;
const NO_SEQUENCE: i64 = -1;
const NO_TIMESTAMP: i64 = -1;
const NOT_MESSAGES: Refusal = "rows are not those of the messages";

/// The reusable buffers for reading.
#[derive(Default)]
struct Reading {
    rows: Rows,
    body: Vec<u8>,
}

thread_local! {
    /// Taken while in use: making objects may run any Python code, which may read records too.
    static READING: Cell<Reading> = Cell::default();
}

/// The records of the whole ordinary entries, and the number of source bytes read.
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
    let mut buffer = Buffer::default();
    let window = part(buffer.read(source)?, start, end)?;
    let wanted = Wanted { verify, control, transactional: true, body_size_max: size_max.0 };
    let mut reading = READING.take();
    let Reading { rows, body } = &mut reading;
    let mut made = Vec::new();
    let (mut consumed, mut decompressed) = (0, 0);
    while made.len() < RECORDS_ENOUGH && decompressed < size_max.0 {
        let Some(entry) = read::first_entry(&window[consumed..]) else {
            break;
        };
        rows.clear();
        let found = if entry.len() < LOCKED_SIZE_MAX {
            read::read(entry, &wanted, body, rows)
        } else {
            guarded(py, || read::read(entry, &wanted, body, rows))?
        };
        let Some(Entry { base_offset, base_sequence, body_size }) = found else {
            break;
        };
        decompressed += body_size.unwrap_or(0);
        let source = body_size.map_or(entry, |size| &body[..size]);
        let mut records = Records::new(py, source, made);
        let rows = rows::of(rows.get()).map_err(PyValueError::new_err)?;
        records.add_batch(rows, base_offset, i64::from(base_sequence))?;
        made = records.made;
        consumed += entry.len();
    }
    trim(body);
    READING.set(reading);
    Ok((PyList::new(py, made)?, consumed))
}

/// The fields of the batch's header, the number of records, whether their offsets rise by one, the
/// lowest and the highest timestamp, and the number of records without a key.
type Facts<'py> = (Bound<'py, PyTuple>, u64, bool, i64, i64, u64);

/// The header of a v2 batch, and the facts about its records. None: the batch is left to the
/// caller.
#[pyfunction]
pub fn summarize_batch<'py>(
    py: Python<'py>,
    source: &Bound<'_, PyAny>,
    start: Index,
    end: Index,
    size_max: Index,
) -> PyResult<Option<Facts<'py>>> {
    let mut buffer = Buffer::default();
    let entry = part(buffer.read(source)?, start, end)?;
    if read::first_entry(entry).is_none_or(|first| first.len() < entry.len()) {
        return Ok(None);
    }
    let wanted =
        Wanted { verify: true, control: true, transactional: true, body_size_max: size_max.0 };
    let mut reading = READING.take();
    let body = &mut reading.body;
    let summarized = if entry.len() < LOCKED_SIZE_MAX {
        summarized(entry, &wanted, body)
    } else {
        guarded(py, || summarized(entry, &wanted, body))?
    };
    trim(body);
    READING.set(reading);
    let (Some(found), Some(head)) = (summarized, entry.first_chunk()) else {
        return Ok(None);
    };
    let fields = PyTuple::new(py, batch_header(head))?;
    let Summary { count, is_dense, oldest, newest, without_key, .. } = found;
    Ok(Some((fields, count, is_dense, oldest, newest, without_key)))
}

/// None: the entry is not an ordinary v2 batch, or has no records.
fn summarized(entry: &[u8], wanted: &Wanted, body: &mut Vec<u8>) -> Option<Summary> {
    if *entry.get(MAGIC_AT)? != V2 {
        return None;
    }
    let mut summary = Summary::new(i64::from_be_bytes(*entry.first_chunk()?));
    read::read(entry, wanted, body, &mut summary)?;
    (summary.count > 0).then_some(summary)
}

/// The fields of `BatchHeader` (records/batch.py) for a batch at position 0, without its codec.
pub(super) fn batch_header(head: &[u8; BATCH_HEADER_SIZE]) -> [i64; 14] {
    let (base_offset, size) = prefix(head);
    let header = Header::parse(head);
    [
        0,
        i64::from(head[MAGIC_AT]),
        PREFIX_SIZE as i64 + i64::from(size),
        base_offset,
        i64::from(header.last_offset_delta),
        i64::from(i32::from_be_bytes(bytes_at::<LEADER_EPOCH_AT, _, _>(head))),
        i64::from(u32::from_be_bytes(bytes_at::<CRC_AT_BATCH, _, _>(head))),
        i64::from(i16::from_be_bytes(bytes_at::<{ ATTRIBUTES_AT_BATCH - 1 }, _, _>(head))),
        header.base_timestamp,
        header.max_timestamp,
        i64::from_be_bytes(bytes_at::<PRODUCER_ID_AT, _, _>(head)),
        i64::from(i16::from_be_bytes(bytes_at::<PRODUCER_EPOCH_AT, _, _>(head))),
        i64::from(i32::from_be_bytes(bytes_at::<BASE_SEQUENCE_AT, _, _>(head))),
        i64::from(header.records_count),
    ]
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
    let mut buffers = RowsAndSource::default();
    let (rows, source) = buffers.read(rows, (rows_start, rows_end), source)?;
    let mut records = Records::new(py, source, Vec::new());
    records.add_batch(rows, base_offset, base_sequence)?;
    PyList::new(py, records.made)
}

/// The messages inside a compressed one, from `at` in the source on, up to the first with a wrong
/// checksum. Also returns the position of that message, or the end of the messages.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract has them
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
    let timestamp_type = record::timestamp_type_of(timestamp_type)?;
    let mut buffers = RowsAndSource::default();
    let (rows, source) = buffers.read(rows, (rows_start, rows_end), source)?;
    let mut records = Records::new(py, source, Vec::new());
    let mut at = at.0;
    for row in rows {
        let rest = records.source.get(at..).unwrap_or_default();
        let message = message(rest).ok_or_else(|| PyValueError::new_err(NOT_MESSAGES))?;
        if verify && !is_sound(message) {
            break;
        }
        at += message.len();
        let [_, timestamp, ..] = rows::fields(row);
        match message[MAGIC_AT] {
            V0 => records.add(row, NO_TIMESTAMP, TIMESTAMP_TYPE_NONE, NO_SEQUENCE)?,
            _ => records.add(row, timestamp, timestamp_type, NO_SEQUENCE)?,
        }
    }
    Ok((PyList::new(py, records.made)?, at))
}

/// The first message of `bytes`.
fn message(bytes: &[u8]) -> Option<&[u8]> {
    let size = bytes.get(PREFIX_SIZE - SIZE_FIELD_SIZE..)?.first_chunk()?;
    let size = usize::try_from(i32::from_be_bytes(*size)).ok()?;
    let message = bytes.get(..PREFIX_SIZE.checked_add(size)?)?;
    (message.len() > MAGIC_AT).then_some(message)
}

/// Whether a message has the checksum that it states.
fn is_sound(message: &[u8]) -> bool {
    let said = message[CRC_AT_LEGACY..].first_chunk().map(|crc| u32::from_be_bytes(*crc));
    said == Some(crc32(0, &message[MAGIC_AT..]))
}

/// Records while they are made.
struct Records<'py, 'a> {
    py: Python<'py>,
    source: &'a [u8],
    made: Vec<Bound<'py, Record>>,
    /// The last timestamp, which the next record often has, too.
    timestamp: Option<(i64, Py<PyAny>)>,
}

impl<'py, 'a> Records<'py, 'a> {
    /// `made`: records that come before these.
    fn new(py: Python<'py>, source: &'a [u8], made: Vec<Bound<'py, Record>>) -> Self {
        Self { py, source, made, timestamp: None }
    }

    /// The records of a batch. `base_sequence` is the sequence number at `base_offset`. If it is
    /// negative, records have none.
    fn add_batch(
        &mut self,
        rows: &[[u8; ROW_SIZE]],
        base_offset: i64,
        base_sequence: i64,
    ) -> PyResult<()> {
        self.made.reserve(rows.len()); // the rows exist, so the claimed count is true
        for row in rows {
            let [offset, timestamp, kind, ..] = rows::fields(row);
            let mut sequence = NO_SEQUENCE;
            if base_sequence >= 0 {
                let delta = offset.wrapping_sub(base_offset);
                sequence = base_sequence.wrapping_add(delta) & SEQUENCE_MAX;
            }
            self.add(row, timestamp, record::timestamp_type_of(kind)?, sequence)?;
        }
        Ok(())
    }

    /// A row's record, without its timestamp.
    #[inline(always)]
    fn add(
        &mut self,
        row: &[u8; ROW_SIZE],
        timestamp: i64,
        timestamp_type: i8,
        sequence: i64,
    ) -> PyResult<()> {
        let fields = rows::fields(row);
        let (headers, count) =
            rows::headers_of(&fields, self.source).map_err(PyValueError::new_err)?;
        let headers = match count {
            0 => Headers::None,
            _ => Headers::Encoded(PyBytes::new(self.py, headers).unbind(), count),
        };
        let record = Record {
            offset: record::number(self.py, fields[0]),
            timestamp: self.timestamp(timestamp),
            key: self.field(fields[3], fields[4])?,
            value: self.field(fields[5], fields[6])?,
            sequence,
            headers,
            timestamp_type,
        };
        self.made.push(new(self.py, record)?);
        Ok(())
    }

    #[inline(always)]
    fn timestamp(&mut self, timestamp: i64) -> Py<PyAny> {
        match &self.timestamp {
            Some((last, object)) if *last == timestamp => object.clone_ref(self.py),
            _ => {
                let object = record::number(self.py, timestamp);
                self.timestamp = Some((timestamp, object.clone_ref(self.py)));
                object
            }
        }
    }

    #[inline(always)]
    fn field(&self, at: i64, size: i64) -> PyResult<Py<PyAny>> {
        let field = rows::field_of(self.source, at, size).map_err(PyValueError::new_err)?;
        if field.size < 0 {
            return Ok(self.py.None());
        }
        Ok(PyBytes::new(self.py, field.bytes).into_any().unbind())
    }
}

#[inline(always)]
fn new(py: Python<'_>, record: Record) -> PyResult<Bound<'_, Record>> {
    let record = Bound::new(py, record)?;
    // SAFETY: the object is alive and complete. The garbage collector need not visit it: it refers
    // only to numbers and bytes, which refer to nothing. Its deallocation untracks it again, which
    // is allowed.
    unsafe { ffi::PyObject_GC_UnTrack(record.as_ptr().cast()) };
    Ok(record)
}
