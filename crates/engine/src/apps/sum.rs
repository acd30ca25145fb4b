//! The reducer of everything that counts.

use crate::record::{Emit, Failure, Reducer, Values, varint};

/// Adds up values that are numbers (see [`number`]) and writes each key with its sum in decimal. Its combiner is
/// [`Combine::Sum`](crate::record::Combine::Sum).
#[derive(Clone, Copy, Debug)]
pub struct Sum;

impl Reducer for Sum {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure> {
        let mut sum = 0_u64;
        while let Some(value) = values.next() {
            let number = varint::decode(value).ok_or_else(|| {
                Failure(format!(
                    "a value of key `{}` is not a number; emit values with varint::with_encoded",
                    key.escape_ascii()
                ))
            })?;
            sum = sum
                .checked_add(number)
                .ok_or_else(|| Failure(format!("the sum for key `{}` is beyond 64 bits", key.escape_ascii())))?;
        }
        let mut digits = [0; 20];
        out.emit(key, decimal(sum, &mut digits));
        Ok(())
    }
}

/// A number in decimal, at the end of `digits`. A job may well write millions of these.
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
    fn decimal_is_decimal() {
        for number in [0, 9, 10, 12_345, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
