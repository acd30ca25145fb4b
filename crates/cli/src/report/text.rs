//! How numbers and names are written on the page.
//!
//! A number keeps the same shape down a column, so that columns line up: whole seconds are two digits after a minute, minutes are
//! two digits after an hour. Thousands are set apart by a narrow space that no line breaks at.

/// A figure there is none of.
pub(crate) const NONE: &str = "–";
/// Set between the thousands.
const NARROW: char = '\u{202f}';

/// Text that is safe between tags and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A length of time: `0.35 s`, `12.3 s`, `4 m 10 s`, `3 h 05 m`, `1 234 h`.
pub(crate) fn span(seconds: f64) -> String {
    // Each limit is where the shorter form would round up to the next unit.
    if (0.005..0.995).contains(&seconds) {
        format!("{seconds:.2} s")
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if seconds < 3_599.5 {
        let whole = seconds.round() as u64;
        format!("{} m {:02} s", whole / 60, whole % 60)
    } else if seconds < 100.0 * 3_600.0 - 30.0 {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{} h {:02} m", minutes / 60, minutes % 60)
    } else {
        format!("{} h", count((seconds / 3_600.0).round() as u64))
    }
}

/// A length of time at a tick, as short as it can be: `0`, `30 s`, `80 s`, `5 m`, `1.5 m`, `2 h`, `3 d`.
pub(crate) fn tick(seconds: f64) -> String {
    let units = [(2.0 * 86_400.0, 86_400.0, "d"), (3_600.0, 3_600.0, "h"), (60.0, 60.0, "m")];
    // Thirds of an hour are better said in minutes.
    let round = |unit_s: f64| (seconds * 10.0 / unit_s).fract() == 0.0;
    let unit = units.into_iter().find(|(from_s, unit_s, _)| seconds >= *from_s && round(*unit_s));
    let (_, unit_s, unit) = unit.unwrap_or((0.0, 1.0, "s"));
    if seconds == 0.0 { "0".into() } else { format!("{} {unit}", short(seconds / unit_s)) }
}

/// A whole number: `1 234 567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(NARROW);
        }
        text.push(digit);
    }
    text
}

/// A part of 1, in percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// How many times over.
pub(crate) fn times(factor: f64) -> String {
    if factor < 100.0 { format!("{factor:.2}") } else { count(factor.round() as u64) }
}

/// A number without needless digits: at most three behind the point, none that are zero.
pub(crate) fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_name_stays_a_name() {
        assert_eq!(escape(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(escape("chronos(fifo) – größer"), "chronos(fifo) – größer");
    }

    #[test]
    fn ticks_are_said_in_the_largest_unit_that_suits() {
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
            "1 m 00 s",
            "4 m 10 s",
            "59 m 59 s",
            "1 h 00 m",
            "3 h 05 m",
            "99 h 59 m",
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
    fn thousands_are_set_apart() {
        assert_eq!([7, 999, 1_000, 1_234_567].map(count).join("|").replace(NARROW, "_"), "7|999|1_000|1_234_567");
    }
}
