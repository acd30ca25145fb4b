//! Instants, spans of time and fractions. All are integers, so that runs are reproducible bit for bit.

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// 100 % in parts per million (ppm), the unit of progress and other fractions.
pub const WHOLE_PPM: u32 = 1_000_000;

/// An instant, in microseconds since the backend's epoch. The core reads no clock: every instant comes with an event or is computed from
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A length of time in microseconds. Its text form, in TOML for example, is `"10s"` or `"1m 30s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Time {
    /// The backend's epoch.
    pub const ZERO: Time = Time(0);
    /// Later than every real instant.
    pub const NEVER: Time = Time(u64::MAX);

    /// The instant this many seconds after the epoch.
    pub fn from_secs_f64(secs: f64) -> Time {
        Time(Span::from_secs_f64(secs).0)
    }

    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Time elapsed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// A span of length zero.
    pub const ZERO: Span = Span(0);
    /// The longest span; arithmetic saturates at it.
    pub const FOREVER: Span = Span(u64::MAX);

    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000_000))
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(1_000))
    }

    /// This many seconds, rounded to microseconds. Negative values and NaN give zero, values that are too large [`Span::FOREVER`].
    pub fn from_secs_f64(secs: f64) -> Span {
        Span(rounded(secs * 1e6))
    }

    /// The span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span multiplied by an integer, at most [`Span::FOREVER`].
    pub fn times(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }

    /// The span multiplied by a factor, rounded to microseconds; saturates as [`Span::from_secs_f64`] does.
    pub fn scaled(self, factor: f64) -> Span {
        Span(rounded(self.0 as f64 * factor))
    }

    /// True for a span of length zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Rounds to the nearest integer, halves up; negative values and NaN give zero. Used instead of `f64::round`, which is a call into the C
/// library on targets without an instruction for it.
fn rounded(number: f64) -> u64 {
    let whole = number as u64;
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.as_secs_f64())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0 s"),
            1..100_000 => write!(f, "{} ms", self.0.div_ceil(1_000)),
            _ => write!(f, "{:.1} s", self.as_secs_f64()),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let text = humantime::format_duration(std::time::Duration::from_micros(self.0));
            serializer.collect_str(&text)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Span);
        }
        deserializer.deserialize_str(SpanText)
    }
}

/// Reads the text form of a span.
struct SpanText;

impl Visitor<'_> for SpanText {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a span of time in quotes, for example \"10s\" or \"1m 30s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        let duration = humantime::parse_duration(text).map_err(|error| {
            E::custom(format!("invalid span of time `{text}`: {error}; write for example \"10s\" or \"1m 30s\""))
        })?;
        u64::try_from(duration.as_micros()).map(Span).map_err(E::custom)
    }
}

/// A number and a noun in the singular or plural: "1 map", "2 maps", "3 losses".
pub fn plural(count: impl Into<u64>, noun: &str) -> String {
    match (count.into(), noun.ends_with('s')) {
        (1, _) => format!("1 {noun}"),
        (count, true) => format!("{count} {noun}es"),
        (count, false) => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Settings {
        wait: Span,
    }

    #[test]
    fn a_span_beyond_all_limits_is_forever() {
        assert_eq!((Span::from_millis(u64::MAX), Span::from_secs(u64::MAX)), (Span::FOREVER, Span::FOREVER));
    }

    #[test]
    fn the_text_form_of_a_span_is_readable_and_survives_parsing() {
        let text = toml::to_string(&Settings { wait: Span::from_millis(90_500) }).unwrap();
        assert_eq!(text.trim(), r#"wait = "1m 30s 500ms""#);
        assert_eq!(toml::from_str::<Settings>(&text).unwrap().wait, Span::from_millis(90_500));
    }

    #[test]
    fn the_error_for_an_invalid_span_shows_a_valid_one() {
        let error = toml::from_str::<Settings>(r#"wait = "soon""#).unwrap_err().to_string();
        assert!(error.contains("write for example"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn rounding_agrees_with_the_standard_library(mantissa in 0..1u64 << 53, exponent in -70..20i32) {
            let number = mantissa as f64 * f64::from(exponent).exp2();
            proptest::prop_assert_eq!(rounded(number), number.round() as u64);
            proptest::prop_assert_eq!(rounded(-number), 0);
        }
    }

    #[test]
    fn halves_are_rounded_up() {
        for (number, nearest) in [
            (0.5, 1),
            (0.499_999_999_999_999_94, 0),
            (1.5, 2),
            (2.5, 3),
            (4_503_599_627_370_497.5, 4_503_599_627_370_498),
        ] {
            assert_eq!(rounded(number), nearest, "{number}");
        }
    }

    #[test]
    fn unrepresentable_seconds_become_zero_or_forever() {
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::INFINITY), Span::FOREVER);
    }
}
