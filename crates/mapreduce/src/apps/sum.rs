//! The reducer of counting applications.

use super::error::DataError;
use crate::record::{AppError, Emit, Reducer, Values, varint};

/// Sums values that are numbers (see [`varint`]) and emits each key with its sum in decimal. The matching combiner is
/// [`Combine::Sum`](crate::record::Combine::Sum).
#[derive(Clone, Copy, Debug)]
pub struct Sum;

impl Reducer for Sum {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        let mut sum = 0_u64;
        while let Some(value) = values.next() {
            let number =
                varint::decode(value).ok_or_else(|| DataError::NotANumber { key: key.escape_ascii().to_string() })?;
            sum = sum
                .checked_add(number)
                .ok_or_else(|| DataError::SumOverflow { key: key.escape_ascii().to_string() })?;
        }
        let mut digits = [0; 20];
        out.emit(key, decimal(sum, &mut digits));
        Ok(())
    }
}

/// Formats a number in decimal at the end of `digits`. Faster than `format!`, because a job may emit millions of numbers.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_in_decimal() {
        for number in [0, 9, 10, 12_345, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
