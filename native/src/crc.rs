//! CRC-32 (IEEE), which v0 and v1 messages carry each. libdeflate's: most others are slow on
//! buffers as short as messages.

use libdeflater::Crc;

/// The CRC-32 of `bytes`, continued from that of what stood before them (0 at the beginning).
#[inline(always)]
pub fn crc32(value: u32, bytes: &[u8]) -> u32 {
    let mut crc = Crc::with_initial(value);
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_check_value_of_the_polynomial_comes_out_in_one_piece_or_two() {
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(crc32(0, b"1234"), b"56789"), 0xcbf4_3926);
    }
}
