//! Formatting of numbers and escaping of names for the page.
//!
//! Formats have a fixed width within a unit, so that columns align: seconds have two digits after minutes, minutes have two digits after hours.
//! The thousands separator is a narrow no-break space.

/// Shown for a missing value.
pub const NONE: &str = "–";
/// Thousands separator: narrow no-break space.
const THOUSANDS_SEPARATOR: char = '\u{202f}';

/// Escapes text for HTML content and attribute values.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A duration: `0.35 s`, `12.3 s`, `4 min 10 s`, `3 h 05 min`, `1 234 h`.
pub fn span(seconds: f64) -> String {
    // Each limit is the value that would round up to the next unit.
    if (0.005..0.995).contains(&seconds) {
        format!("{seconds:.2} s")
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if seconds < 3_599.5 {
        let whole = seconds.round() as u64;
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else if seconds < 100.0 * 3_600.0 - 30.0 {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    } else {
        format!("{} h", count((seconds / 3_600.0).round() as u64))
    }
}

/// A duration as a tick label, in the largest unit that needs at most one decimal: `0`, `30 s`, `80 s`, `5 m`, `1.5 m`, `2 h`, `3 d`.
pub fn tick(seconds: f64) -> String {
    let units = [(2.0 * 86_400.0, 86_400.0, "d"), (3_600.0, 3_600.0, "h"), (60.0, 60.0, "m")];
    // Thirds of an hour, for example, are shown in minutes.
    let round = |unit_s: f64| (seconds * 10.0 / unit_s).fract() == 0.0;
    let unit = units.into_iter().find(|(from_s, unit_s, _)| seconds >= *from_s && round(*unit_s));
    let (_, unit_s, unit) = unit.unwrap_or((0.0, 1.0, "s"));
    if seconds == 0.0 { "0".into() } else { format!("{} {unit}", short(seconds / unit_s)) }
}

/// An integer with thousands separators: `1 234 567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(THOUSANDS_SEPARATOR);
        }
        text.push(digit);
    }
    text
}

/// A fraction (0-1) as a percentage.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// A ratio: two decimals below 100, an integer above.
pub fn times(factor: f64) -> String {
    if factor < 100.0 { format!("{factor:.2}") } else { count(factor.round() as u64) }
}

/// A number with at most three decimals and no trailing zeros.
pub fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(escape(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(escape("chronos(fifo) – größer"), "chronos(fifo) – größer");
    }

    #[test]
    fn ticks_use_the_largest_suitable_unit() {
        let all = [0.0, 0.5, 30.0, 60.0, 80.0, 90.0, 300.0, 4_800.0, 5_400.0, 43_200.0, 172_800.0, 864_000.0];
        let expected = ["0", "0.5 s", "30 s", "1 m", "80 s", "1.5 m", "5 m", "80 m", "1.5 h", "12 h", "2 d", "10 d"];
        assert_eq!(all.map(tick), expected);
    }

    #[test]
    fn spans_change_units_where_they_would_round_up() {
        let all = [0.001, 0.35, 0.996, 12.34, 59.94, 59.96, 250.0, 3_599.4, 3_599.6, 11_100.0, 359_969.0, 4_442_400.0];
        let written = all.map(span);
        let expected = [
            "0.0 s",
            "0.35 s",
            "1.0 s",
            "12.3 s",
            "59.9 s",
            "1 min 00 s",
            "4 min 10 s",
            "59 min 59 s",
            "1 h 00 min",
            "3 h 05 min",
            "99 h 59 min",
            "1\u{202f}234 h",
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(
            [0.0, 0.5, 30.0, 90.0, 600.0, 7_200.0, 259_200.0].map(tick).join(" | "),
            "0 | 0.5 s | 30 s | 1.5 m | 10 m | 2 h | 3 d"
        );
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(
            [7, 999, 1_000, 1_234_567].map(count).join("|").replace(THOUSANDS_SEPARATOR, "_"),
            "7|999|1_000|1_234_567"
        );
    }
}
