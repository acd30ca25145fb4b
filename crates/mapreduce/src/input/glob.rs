//! Globs over local files, as shells and Hadoop read them: `*`, `?`, `[abc]`, `[a-z]`, `[!abc]`, and `**` for any directories. Names need not be UTF-8. A name that
//! begins with `.` is matched by a component that begins with `.` only.

use regex::bytes::Regex;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a glob cannot be expanded.
#[derive(Debug)]
pub(super) enum GlobError {
    /// The pattern is invalid, with the reason.
    Pattern(&'static str),
    /// A directory cannot be read.
    Unreadable(PathBuf, io::Error),
}

/// A component of a pattern.
enum Component {
    /// A name without wildcards.
    Name(String),
    /// Matches names of one component.
    Wildcards { names: Regex, hidden: bool },
    /// Any number of directories, also none.
    Directories,
}

/// The existing paths that match a pattern, in no order. `**` at the end matches the directories before it.
pub(super) fn expand(pattern: &str) -> Result<Vec<PathBuf>, GlobError> {
    let components = pattern.split('/').filter(|part| !part.is_empty()).map(parse).collect::<Result<Vec<_>, _>>()?;
    let mut found = vec![PathBuf::from("/")];
    for (component, number) in components.iter().zip(1..) {
        let mut next = Vec::new();
        for path in found {
            match component {
                Component::Name(name) => {
                    let path = path.join(name);
                    // A name of the file itself that is a link without a target is reported when it is opened.
                    if path.symlink_metadata().is_ok() {
                        next.push(path);
                    }
                }
                Component::Wildcards { names, hidden } => {
                    for name in list(&path)? {
                        if (*hidden || name.as_bytes().first() != Some(&b'.')) && names.is_match(name.as_bytes()) {
                            next.push(path.join(name));
                        }
                    }
                }
                Component::Directories if number == components.len() => next.push(path),
                Component::Directories => add_directories(path, &mut next)?,
            }
        }
        // Two `**` may lead to a path in several ways.
        next.sort_unstable();
        next.dedup();
        found = next;
    }
    Ok(found)
}

/// Adds a directory and those below it. Links are not followed: they may lead to a parent.
fn add_directories(path: PathBuf, to: &mut Vec<PathBuf>) -> Result<(), GlobError> {
    for name in list(&path)? {
        let below = path.join(&name);
        let is_directory = below.symlink_metadata().is_ok_and(|found| found.is_dir());
        if is_directory && name.as_bytes().first() != Some(&b'.') {
            add_directories(below, to)?;
        }
    }
    to.push(path);
    Ok(())
}

/// The names in a directory; none if it is something else.
fn list(path: &Path) -> Result<Vec<OsString>, GlobError> {
    let failed = |error| GlobError::Unreadable(path.to_owned(), error);
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed)).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

fn parse(part: &str) -> Result<Component, GlobError> {
    if part == "**" {
        return Ok(Component::Directories);
    }
    if part.contains("**") {
        return Err(GlobError::Pattern("`**` must be a path component of its own"));
    }
    if !part.contains(['*', '?', '[']) {
        return Ok(Component::Name(part.to_owned()));
    }
    // A character, or a byte that is not part of one.
    const ANY: &str = r"(?s:.)|(?-u:[\x80-\xff])";
    let mut text = String::from("^");
    let mut rest = part;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '*' => text.push_str(&format!("(?:{ANY})*")),
            '?' => text.push_str(&format!("(?:{ANY})")),
            '[' => {
                let negated = rest.starts_with('!');
                rest = rest.strip_prefix('!').unwrap_or(rest);
                // A bracket that comes first is one of the characters.
                let first = rest.chars().next().map_or(0, char::len_utf8);
                let end = rest.get(first..).and_then(|after| after.find(']'));
                let end = end.ok_or(GlobError::Pattern("a `[` without a `]`"))? + first;
                text.push_str(&class(&rest[..end], negated));
                rest = &rest[end + 1..];
            }
            other => text.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    text.push('$');
    let names = Regex::new(&text)
        .map_err(|_| GlobError::Pattern("a range between brackets is empty, or the glob is too long"))?;
    Ok(Component::Wildcards { names, hidden: part.starts_with('.') })
}

/// A set of characters as a regular expression.
fn class(characters: &str, negated: bool) -> String {
    let mut text = String::from(if negated { "[^" } else { "[" });
    let escaped = |character: char| format!(r"\x{{{:x}}}", u32::from(character));
    let mut rest = characters.chars();
    while let Some(first) = rest.next() {
        text.push_str(&escaped(first));
        // A `-` at the end is a character like others.
        let mut ahead = rest.clone();
        if ahead.next() == Some('-')
            && let Some(last) = ahead.next()
        {
            text.push('-');
            text.push_str(&escaped(last));
            rest = ahead;
        }
    }
    text.push(']');
    text
}

/// True if a name, such as that of a file, is matched by one component. For tests and fuzzing.
pub(crate) fn matches(part: &str, name: &OsStr) -> bool {
    match parse(part) {
        Ok(Component::Wildcards { names, .. }) => names.is_match(name.as_bytes()),
        Ok(Component::Name(own)) => own.as_bytes() == name.as_bytes(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_characters_and_bytes() {
        for (pattern, name, is_match) in [
            ("*", &b"a"[..], true),
            ("*", b"\xff\xfe", true),
            ("a?c", b"abc", true),
            ("a?c", "a\u{e4}c".as_bytes(), true),
            ("a?c", b"a\xffc", true),
            ("a?c", b"ac", false),
            ("*.txt", b"a\n.txt", true),
            ("*.txt", b"atxt", false),
            ("[a-c]x", b"bx", true),
            ("[a-c]x", b"dx", false),
            ("[!a-c]x", b"dx", true),
            ("[!a-c]x", b"bx", false),
            ("[]]", b"]", true),
            ("[!]]", b"]", false),
            ("[[]", b"[", true),
            ("[a-]", b"-", true),
            ("[^a]", b"^", true),
            ("[\\d]", b"7", false),
            ("a+(b)*", b"a+(b)c", true),
            ("name", b"name", true),
        ] {
            assert_eq!(matches(pattern, OsStr::from_bytes(name)), is_match, "{pattern} {name:?}");
        }
        for invalid in ["[", "[]", "a[b", "[z-a]", "a**", "***"] {
            assert!(matches!(parse(invalid), Err(GlobError::Pattern(_))), "{invalid}");
        }
    }

    /// Every pattern of a few special characters is valid or refused, and what is valid can be matched.
    #[test]
    fn no_pattern_panics() {
        let characters: Vec<char> = "[]!-^*?\\a\u{e4}.".chars().collect();
        let mut patterns = vec![String::new()];
        for _ in 0..4 {
            let longer = |pattern: &String| {
                characters.iter().map(|character| format!("{pattern}{character}")).collect::<Vec<_>>()
            };
            patterns = patterns.iter().flat_map(longer).collect();
            for pattern in &patterns {
                let is_special = pattern.contains(['[', ']', '*', '?']);
                assert!(is_special || matches(pattern, OsStr::new(pattern)), "{pattern}");
                matches(pattern, OsStr::from_bytes(b"a\xe4"));
            }
        }
    }

    #[test]
    fn directories_are_searched() {
        let root = tempfile::tempdir().unwrap();
        for file in ["a/1", "a/b/2", "a/.h/3", "a/b/c/1", "d/1"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink("..", root.path().join("a/b/up")).unwrap();
        let found = |pattern: &str| {
            let found = expand(&format!("{}/{pattern}", root.path().display())).unwrap();
            found.iter().map(|path| path.strip_prefix(root.path()).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("a/**/1"), ["a/1", "a/b/c/1"]);
        assert_eq!(found("**/**/1"), ["a/1", "a/b/c/1", "d/1"]);
        assert_eq!(found("a/**"), ["a"]);
        assert_eq!(found("*/1"), ["a/1", "d/1"]);
        assert_eq!(found("a/.*/3"), ["a/.h/3"]);
        assert_eq!(found("a/*/3"), [""; 0]);
        assert_eq!(found("a/1/*"), [""; 0], "a file has no entries");
        assert_eq!(found("none/*"), [""; 0]);
    }
}
