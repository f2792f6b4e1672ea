//! Descriptors that Python has opened, and closes: a file to read from, a channel to write to.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::ReadAt;

/// A file, read at positions.
pub struct Readable(ManuallyDrop<File>);

impl Readable {
    /// ValueError where it can be no descriptor.
    pub fn borrow(descriptor: i32) -> PyResult<Self> {
        check(descriptor)?;
        // SAFETY: it is not -1, and `ManuallyDrop` leaves closing it to its owner. If Python closes
        // it meanwhile, reads fail, or read another file's bytes, as os.preadv's would: any bytes
        // are accepted.
        Ok(Self(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) })))
    }
}

impl ReadAt for Readable {
    fn read_at(&self, window: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(&*self.0, window, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

/// A channel: a plain socket, or a pipe or file that is written as it is.
pub enum Writable {
    /// Written by send(2), so that a closed connection is an error and no signal. The class serves
    /// for sockets of every kind.
    Socket(ManuallyDrop<TcpStream>),
    /// Written by write(2).
    File(ManuallyDrop<File>),
}

impl Writable {
    /// ValueError where it can be no descriptor.
    pub fn borrow(descriptor: i32, is_socket: bool) -> PyResult<Self> {
        check(descriptor)?;
        // SAFETY: as in `Readable::borrow`; if Python closes it meanwhile, writes fail or go where
        // those of Python itself would.
        Ok(unsafe {
            if is_socket {
                Self::Socket(ManuallyDrop::new(TcpStream::from_raw_fd(descriptor)))
            } else {
                Self::File(ManuallyDrop::new(File::from_raw_fd(descriptor)))
            }
        })
    }
}

impl Write for Writable {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => socket.write(data),
            Self::File(file) => file.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check(descriptor: i32) -> PyResult<()> {
    if descriptor < 0 {
        return Err(PyValueError::new_err("no descriptor"));
    }
    Ok(())
}
