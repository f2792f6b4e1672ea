//! CRC-32 (IEEE) of v0 and v1 messages, and CRC-32C of v2 batches.
//!
//! CRC-32 comes from libdeflate, because most other libraries are slow on buffers as short as
//! messages.

pub use crc32c::crc32c;
use libdeflater::Crc;

/// The CRC-32 of `bytes`, continued from that of earlier bytes (0 at the beginning).
#[inline(always)]
pub fn crc32(value: u32, bytes: &[u8]) -> u32 {
    let mut crc = Crc::with_initial(value);
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::{crc32, crc32c};

    #[test]
    fn the_check_value_of_castagnolis_polynomial_comes_out() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn the_check_value_of_the_polynomial_comes_out_in_one_piece_or_two() {
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(crc32(0, b"1234"), b"56789"), 0xcbf4_3926);
    }
}
