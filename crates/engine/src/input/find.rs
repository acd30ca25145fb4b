//! Finding input: what was typed, then what it means.

use super::{InputError, ReadAt, Stored};
use crate::hdfs;
use crate::job::{Codec, FileLocation, InputFile};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The files behind local paths, folders, globs, `dfs:` paths and all that in HDFS, in order of their names; each once, however often it was named.
///
/// A folder stands for all files below it. Names that begin with `.` or `_` (markers, half-written output) are left out of
/// folders and globs unless they are asked for by that first character.
pub fn find(input: &[String], stored: &dyn Stored) -> Result<Vec<InputFile>, InputError> {
    let mut files = Vec::new();
    for typed in input {
        if typed.starts_with("dfs:") {
            files.extend(stored.find(typed)?);
        } else if typed.starts_with(hdfs::SCHEME) {
            files.extend(hdfs::find(typed)?);
        } else {
            for path in local(typed)? {
                files.push(look_at(path)?);
            }
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.dedup_by(|a, b| a.name == b.name);
    if files.is_empty() { Err(InputError::Nothing) } else { Ok(files) }
}

/// How a file is packed: its first bytes decide. A name that promises what they do not keep is an error, since the user expects
/// it unpacked.
pub fn packing(name: &str, bytes: &dyn ReadAt) -> Result<Codec, InputError> {
    let mut first = [0; 4];
    let read =
        bytes.read_at(0, &mut first).map_err(|source| InputError::Unreadable { name: name.to_owned(), source })?;
    let promised = match name.rsplit_once('.') {
        Some((_, "gz" | "gzip")) => Codec::Gzip,
        Some((_, "zst" | "zstd")) => Codec::Zstd,
        Some((_, "lz4")) => Codec::Lz4,
        _ => Codec::Plain,
    };
    let found = match first {
        [0x1f, 0x8b, 8, _] => Codec::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd] => Codec::Zstd,
        [0x04, 0x22, 0x4d, 0x18] => Codec::Lz4,
        // A frame to be skipped may stand before the first real one; parallel zstd writes them.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18] if promised == Codec::Zstd => Codec::Zstd,
        _ => Codec::Plain,
    };
    if found == Codec::Plain && promised != Codec::Plain && read > 0 {
        return Err(InputError::Misnamed { name: name.to_owned(), packing: promised });
    }
    Ok(found)
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Codec::Plain => "plain",
            Codec::Gzip => "gzip",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
        })
    }
}

/// The paths behind something typed.
fn local(typed: &str) -> Result<Vec<PathBuf>, InputError> {
    let path = Path::new(typed);
    if !path.is_absolute() {
        return Err(InputError::Relative { path: typed.to_owned() });
    }
    // A file may be called `a[1].txt`: what exists is no glob.
    let exists = path.try_exists().map_err(|source| InputError::Unreadable { name: typed.to_owned(), source })?;
    let named = if exists {
        vec![path.to_owned()]
    } else if typed.contains(['*', '?', '[']) {
        matches(typed)?
    } else {
        return Err(InputError::Missing { path: typed.to_owned() });
    };
    let mut paths = Vec::new();
    for path in named {
        if path.is_dir() {
            let before = paths.len();
            walk(&path, &mut paths)?;
            if paths.len() == before {
                return Err(InputError::EmptyFolder { path: path.display().to_string() });
            }
        } else {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn matches(pattern: &str) -> Result<Vec<PathBuf>, InputError> {
    let bad =
        |error: glob::PatternError| InputError::BadGlob { pattern: pattern.to_owned(), detail: error.msg.to_owned() };
    let last = pattern.rsplit('/').next().unwrap_or_default();
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    let mut paths = Vec::new();
    for found in glob::glob_with(pattern, options).map_err(bad)? {
        let path = found.map_err(|error| {
            let path = error.path().to_owned();
            unreadable(&path, error.into())
        })?;
        if !is_hidden(&path) || last.starts_with(['.', '_']) {
            paths.push(path);
        }
    }
    if paths.is_empty() { Err(InputError::NoMatch { pattern: pattern.to_owned() }) } else { Ok(paths) }
}

/// All files below a folder. Links to folders are not entered: they may lead back up.
fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), InputError> {
    for entry in fs::read_dir(folder).map_err(|source| unreadable(folder, source))? {
        let entry = entry.map_err(|source| unreadable(folder, source))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|source| unreadable(&path, source))?;
        if is_hidden(&path) {
            continue;
        }
        if kind.is_dir() {
            walk(&path, paths)?;
        } else if !path.is_dir() {
            paths.push(path);
        }
    }
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_')))
}

fn look_at(path: PathBuf) -> Result<InputFile, InputError> {
    let name = path.to_string_lossy().into_owned();
    let meta = fs::metadata(&path).map_err(|source| unreadable(&path, source))?;
    // Opening a pipe would wait for its writer, so this comes first.
    if !meta.is_file() {
        return Err(InputError::NotAFile { path: name });
    }
    let opened = File::open(&path).map_err(|source| unreadable(&path, source))?;
    let packing = packing(&name, &opened)?;
    Ok(InputFile { name, location: FileLocation::Local(path), codec: packing, bytes: meta.len() })
}

fn unreadable(path: &Path, source: io::Error) -> InputError {
    InputError::Unreadable { name: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::super::LocalOnly;
    use super::*;

    /// A folder with these files, and the names (below it) that an input finds.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[(&str, &[u8])]) -> Tree {
            let root = tempfile::tempdir().unwrap();
            for (name, bytes) in files {
                let path = root.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            Tree(root)
        }

        fn path(&self, name: &str) -> String {
            self.0.path().join(name).to_str().unwrap().to_owned()
        }

        fn find(&self, names: &[&str]) -> Result<Vec<String>, String> {
            let input: Vec<String> = names.iter().map(|name| self.path(name)).collect();
            let files = find(&input, &LocalOnly).map_err(|error| error.to_string().replace(&self.path(""), ""))?;
            Ok(files.iter().map(|file| file.name.replace(&self.path(""), "")).collect())
        }
    }

    #[test]
    fn files_folders_and_globs_in_order_of_names_and_once() {
        let tree =
            Tree::new(&[("b", b"1"), ("a/2", b""), ("a/1", b"x"), ("a/_SUCCESS", b""), ("a/.x", b""), ("a/c/3", b"y")]);
        assert_eq!(tree.find(&["b", "a", "a/1"]).unwrap(), ["a/1", "a/2", "a/c/3", "b"]);
        assert_eq!(tree.find(&["*"]).unwrap(), ["a/1", "a/2", "a/c/3", "b"]);
        assert_eq!(tree.find(&["a/[0-9]"]).unwrap(), ["a/1", "a/2"]);
        assert_eq!(tree.find(&["a/*"]).unwrap(), ["a/1", "a/2", "a/c/3"]);
        assert_eq!(tree.find(&["a/_*", "a/.x"]).unwrap(), ["a/.x", "a/_SUCCESS"]);
    }

    #[test]
    fn what_exists_is_no_glob() {
        let tree = Tree::new(&[("a[1]", b""), ("a1", b"")]);
        assert_eq!(tree.find(&["a[1]"]).unwrap(), ["a[1]"]);
    }

    #[test]
    fn bad_input_is_named_with_a_hint() {
        let tree = Tree::new(&[("empty/_x", b""), ("fake.gz", b"text"), ("nothing.gz", b"")]);
        let says = |name: &str| tree.find(&[name]).unwrap_err();
        assert!(says("none").starts_with("input none does not exist; check"));
        assert!(says("*.txt").starts_with("input *.txt matches no file;"));
        assert!(says("a[*").starts_with("input a[* is not a glob:"));
        assert!(says("empty").starts_with("input folder empty holds no file"));
        assert!(says("fake.gz").starts_with("input fake.gz is named like a gzip file but does not begin like one;"));
        assert_eq!(tree.find(&["nothing.gz"]).unwrap(), ["nothing.gz"]);
        assert!(find(&["a".into()], &LocalOnly).unwrap_err().to_string().contains("not an absolute path"));
        assert!(find(&["dfs:/a".into()], &LocalOnly).unwrap_err().to_string().contains("is in the block store"));
        assert!(find(&[], &LocalOnly).unwrap_err().to_string().contains("no input"));
        assert!(find(&["/dev/null".into()], &LocalOnly).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn the_first_bytes_say_how_a_file_is_packed() {
        let of = |name: &str, bytes: &[u8]| packing(name, &bytes.to_vec()).unwrap();
        assert_eq!(of("a", &[0x1f, 0x8b, 8, 0]), Codec::Gzip);
        assert_eq!(of("a.txt", &[0x28, 0xb5, 0x2f, 0xfd]), Codec::Zstd);
        assert_eq!(of("a", &[0x04, 0x22, 0x4d, 0x18]), Codec::Lz4);
        assert_eq!(of("a.zst", &[0x5d, 0x2a, 0x4d, 0x18]), Codec::Zstd);
        assert_eq!(of("a", &[0x1f]), Codec::Plain);
    }
}
