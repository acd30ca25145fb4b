//! The application of a job, told by its user and its name: jobs of one user whose names differ in numbers only are alike.

/// Of a longer name, only the beginning tells applications apart, in characters.
const NAME_MAX: usize = 200;

/// The application of a job: its user and its name, with each number in it replaced. Digits after a letter are part of a word, as in `q6`.
pub(super) fn application(user: &str, name: &str) -> String {
    let mut found = format!("{user}/");
    let mut last = '/';
    for c in name.chars().take(NAME_MAX) {
        match c {
            '0'..='9' if !last.is_alphanumeric() => found.push('#'),
            '0'..='9' if found.ends_with('#') => {}
            c => found.push(c),
        }
        last = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_name_do_not_make_another_application() {
        let application = |name: &str| application("ann", name);
        assert_eq!(application("report-2026-11-18"), "ann/report-#-#-#");
        assert_eq!(application("job_1794993600000_0042"), "ann/job_#_#");
        assert_eq!(application("7"), "ann/#");
        assert_eq!(application("sort"), "ann/sort");
        assert_eq!(application(&"\u{e9}".repeat(9_999)), format!("ann/{}", "\u{e9}".repeat(NAME_MAX)));
    }

    #[test]
    fn digits_in_a_word_and_users_tell_applications_apart() {
        assert_eq!(application("ann", "tpch-q6-12"), "ann/tpch-q6-#");
        assert_ne!(application("ann", "q6"), application("ann", "q7"));
        assert_ne!(application("ann", "sort"), application("bob", "sort"));
    }
}
