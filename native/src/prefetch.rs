//! Asks the processor for bytes before they are needed.
//!
//! The processor prefetches only within a page of 4 KiB. A record's position is known only after
//! the record before it has been read. So without a hint, each record of a mapped file would wait
//! for memory.

/// The distance ahead: the bytes that are converted within a few hundred nanoseconds.
const DISTANCE: usize = 4 * 1024;
const LINE_SIZE: usize = 64;
/// Smaller records need no hint: the processor reads several of them before it needs the first.
const SIZE_MIN: usize = 512;
/// The most cache lines that one call asks for, because a record may have megabytes.
const LINES_MAX: usize = 256;

/// Asks for `size` bytes that are `DISTANCE` after the beginning of `bytes`. Call this after `size`
/// bytes before `bytes` have been read.
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
    // SAFETY: the instruction is a hint. It reads nothing that the program sees, and an unmapped
    // address is no fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn hint(_: *const u8) {}
