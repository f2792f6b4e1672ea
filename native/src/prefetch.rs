//! Asking for bytes before they are needed.
//!
//! The processor guesses what comes next only within a page of 4 KiB, and a record's position is
//! known only once the one before it has been read: from a mapped file each would wait for memory.

/// How far ahead: what is converted within a few hundred nanoseconds.
const DISTANCE: usize = 4 * 1024;
const LINE_SIZE: usize = 64;
/// Of smaller records the processor has read several before it needs the first.
const SIZE_MIN: usize = 512;
/// At a time: not all of a record of megabytes.
const LINES_MAX: usize = 256;

/// So many bytes have been looked at, and `bytes` follow: asks for as many further on.
#[inline(always)]
pub fn ahead(bytes: &[u8], size: usize) {
    if size < SIZE_MIN {
        return;
    }
    let start = bytes.as_ptr().wrapping_add(DISTANCE);
    for line in 0..=(size / LINE_SIZE).min(LINES_MAX) {
        hint(start.wrapping_add(line * LINE_SIZE));
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline(always)]
fn hint(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is a hint: it reads nothing that the program sees, and an address
    // where nothing is, is no fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn hint(_: *const u8) {}
