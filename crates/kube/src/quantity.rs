//! Kubernetes' resource quantities: a decimal number with an optional suffix.

/// A quantity of CPU in thousandths of a core, rounded up; none if it is not a valid quantity.
pub fn milli_cpu(quantity: &str) -> Option<u64> {
    // A thousandth is no binary fraction: what exceeds a whole number by a rounding error is that number.
    parse(quantity).map(|cores| (cores * 1e3 - 1e-9).ceil() as u64)
}

/// A quantity of memory in bytes, rounded up; none if it is not a valid quantity.
pub fn bytes(quantity: &str) -> Option<u64> {
    parse(quantity).map(|bytes| bytes.ceil() as u64)
}

fn parse(quantity: &str) -> Option<f64> {
    let suffix_at = quantity.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(suffix_at);
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => f64::from(1 << 20),
        "Gi" => f64::from(1 << 30),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        // An exponent: 1e3.
        _ => return quantity.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0),
    };
    let number: f64 = number.parse().ok()?;
    let value = number * factor;
    (value.is_finite() && value >= 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_suffixes_and_exponents() {
        let cpu = ["0", "1", "1.5", "250m", "1m", "100u", "3n", "2k"].map(|text| milli_cpu(text).unwrap());
        assert_eq!(cpu, [0, 1000, 1500, 250, 1, 1, 1, 2_000_000]);
        let memory = ["64Mi", "1Gi", "1e3", "2E3", "100M", "128974848000m"].map(|text| bytes(text).unwrap());
        assert_eq!(memory, [64 << 20, 1 << 30, 1000, 2000, 100_000_000, 128_974_848]);
        for invalid in ["", "x", "-1", "1 Gi", "1Zi", "inf", "nan", "1e999", "Mi"] {
            assert_eq!((milli_cpu(invalid), bytes(invalid)), (None, None), "{invalid}");
        }
    }

    #[test]
    fn every_thousandth_is_read_as_it_is_written() {
        for milli in 0..5000 {
            assert_eq!(milli_cpu(&format!("{milli}m")), Some(milli));
        }
    }
}
