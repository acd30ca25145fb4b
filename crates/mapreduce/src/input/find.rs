//! Expands the input paths of a request into files.

use super::glob::{self, GlobError};
use super::{FileVersion, InputError, ReadAt};
use crate::hdfs;
use crate::job::{Codec, FileLocation, InputFile};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The files of local paths, directories and globs, and of HDFS paths. They are ordered by name, without duplicates.
///
/// A directory stands for all files below it. Names that begin with `.` or `_` (markers, uncommitted output) are ignored in directories and globs,
/// unless the last component of the glob begins with that character, too.
pub fn find_files(input: &[OsString]) -> Result<Vec<InputFile>, InputError> {
    let mut files = Vec::new();
    for path in input {
        match path.to_str() {
            Some(path) if path.starts_with(hdfs::SCHEME) => files.extend(hdfs::find_files(path)?),
            _ => {
                for path in expand(path)? {
                    files.push(inspect(path)?);
                }
            }
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.dedup_by(|a, b| a.name == b.name);
    if files.is_empty() { Err(InputError::Nothing) } else { Ok(files) }
}

/// Detects a file's codec by its first bytes. It is an error if the extension names a codec and the bytes are not of any, because the user
/// expects the file to be decompressed.
pub fn detect_codec(name: &str, bytes: &dyn ReadAt) -> Result<Codec, InputError> {
    let mut first = [0; 4];
    let read =
        bytes.read_at(0, &mut first).map_err(|source| InputError::Unreadable { name: name.to_owned(), source })?;
    let by_extension = match name.rsplit_once('.') {
        Some((_, "gz" | "gzip")) => Codec::Gzip,
        Some((_, "zst" | "zstd")) => Codec::Zstd,
        Some((_, "lz4")) => Codec::Lz4,
        _ => Codec::Plain,
    };
    let found = match first {
        [0x1f, 0x8b, 8, _] => Codec::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd] => Codec::Zstd,
        [0x04, 0x22, 0x4d, 0x18] => Codec::Lz4,
        // A skippable frame, which parallel zstd writes before the first data frame.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18] if by_extension == Codec::Zstd => Codec::Zstd,
        _ => Codec::Plain,
    };
    if found == Codec::Plain && by_extension != Codec::Plain && read > 0 {
        return Err(InputError::WrongExtension { name: name.to_owned(), codec: by_extension });
    }
    Ok(found)
}

/// The local files of a path: itself, the files below a directory, or the matches of a glob.
fn expand(path_or_glob: &OsStr) -> Result<Vec<PathBuf>, InputError> {
    let path = Path::new(path_or_glob);
    if !path.is_absolute() {
        return Err(InputError::Relative { path: path.display().to_string() });
    }
    // A file's name may contain glob characters, such as `a[1].txt`: an existing path is not a glob.
    let exists = path.try_exists().map_err(|source| unreadable(path, source))?;
    let named = if exists {
        vec![path.to_owned()]
    } else {
        // A pattern must be UTF-8; the names it matches need not be.
        let pattern = path_or_glob.to_str().filter(|pattern| pattern.contains(['*', '?', '[']));
        expand_glob(pattern.ok_or_else(|| InputError::Missing { path: path.display().to_string() })?)?
    };
    let mut paths = Vec::new();
    for path in named {
        if path.is_dir() {
            let before = paths.len();
            walk(&path, &mut paths)?;
            if paths.len() == before {
                return Err(InputError::EmptyDirectory { path: path.display().to_string() });
            }
        } else {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn expand_glob(pattern: &str) -> Result<Vec<PathBuf>, InputError> {
    let last = pattern.rsplit('/').next().unwrap_or_default();
    let mut paths = glob::expand(pattern).map_err(|error| match error {
        GlobError::Pattern(detail) => InputError::BadGlob { pattern: pattern.to_owned(), detail: detail.to_owned() },
        GlobError::Unreadable(path, error) => unreadable(&path, error),
    })?;
    paths.retain(|path| !is_hidden(path) || last.starts_with(['.', '_']));
    if paths.is_empty() { Err(InputError::NoMatch { pattern: pattern.to_owned() }) } else { Ok(paths) }
}

/// Adds all files below a directory. Symbolic links to directories are not followed: they may lead to a parent.
fn walk(dir: &Path, paths: &mut Vec<PathBuf>) -> Result<(), InputError> {
    for entry in fs::read_dir(dir).map_err(|source| unreadable(dir, source))? {
        let entry = entry.map_err(|source| unreadable(dir, source))?;
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

fn inspect(path: PathBuf) -> Result<InputFile, InputError> {
    let metadata = fs::metadata(&path).map_err(|source| unreadable(&path, source))?;
    // Before the file is opened: opening a pipe would block until it has a writer.
    if !metadata.is_file() {
        return Err(InputError::NotAFile { path: path.display().to_string() });
    }
    let opened = File::open(&path).map_err(|source| unreadable(&path, source))?;
    // Of the file that was opened, whose version is checked whenever it is read.
    let metadata = opened.metadata().map_err(|source| unreadable(&path, source))?;
    let is_empty = opened.read_at(0, &mut [0]).map_err(|source| unreadable(&path, source))? == 0;
    if metadata.len() == 0 && !is_empty && opened.metadata().is_ok_and(|now| now.len() == 0) {
        return Err(InputError::WithoutSize { path: path.display().to_string() });
    }
    let packing = detect_codec(&path.to_string_lossy(), &opened)?;
    Ok(InputFile {
        name: path.clone().into(),
        location: FileLocation::LocalVersion { path, version: FileVersion::of(&metadata) },
        codec: packing,
        bytes: metadata.len(),
    })
}

fn unreadable(path: &Path, source: io::Error) -> InputError {
    InputError::Unreadable { name: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    /// A directory with files in it. Paths are relative to it.
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
            let input: Vec<OsString> = names.iter().map(|name| self.path(name).into()).collect();
            let files = find_files(&input).map_err(|error| error.to_string().replace(&self.path(""), ""))?;
            Ok(files.iter().map(|file| file.name.to_string_lossy().replace(&self.path(""), "")).collect())
        }
    }

    #[test]
    fn files_are_ordered_by_name_without_duplicates() {
        let tree =
            Tree::new(&[("b", b"1"), ("a/2", b""), ("a/1", b"x"), ("a/_SUCCESS", b""), ("a/.x", b""), ("a/c/3", b"y")]);
        assert_eq!(tree.find(&["b", "a", "a/1"]).unwrap(), ["a/1", "a/2", "a/c/3", "b"]);
        assert_eq!(tree.find(&["*"]).unwrap(), ["a/1", "a/2", "a/c/3", "b"]);
        assert_eq!(tree.find(&["a/[0-9]"]).unwrap(), ["a/1", "a/2"]);
        assert_eq!(tree.find(&["a/*"]).unwrap(), ["a/1", "a/2", "a/c/3"]);
        assert_eq!(tree.find(&["a/_*", "a/.x"]).unwrap(), ["a/.x", "a/_SUCCESS"]);
    }

    #[test]
    fn names_that_are_not_utf8_stay_apart() {
        let tree = Tree::new(&[]);
        let names = [b"a\xfe", b"a\xff"].map(|name| OsStr::from_bytes(name).to_owned());
        for name in &names {
            fs::write(tree.0.path().join(name), b"x").unwrap();
        }
        let by_glob = vec![tree.path("a*").into(), tree.path("?*").into()];
        for input in
            [by_glob, vec![tree.path("").into()], names.iter().map(|name| tree.0.path().join(name).into()).collect()]
        {
            let files = find_files(&input).unwrap();
            assert_eq!(
                files.iter().map(|file| Path::new(&file.name).file_name().unwrap().to_owned()).collect::<Vec<_>>(),
                names
            );
            let has_own_path = |file: &InputFile| matches!(&file.location, FileLocation::LocalVersion { path, .. } if *path == Path::new(&file.name));
            assert!(files.iter().all(has_own_path));
        }
    }

    #[test]
    fn an_existing_path_is_not_a_glob() {
        let tree = Tree::new(&[("a[1]", b""), ("a1", b"")]);
        assert_eq!(tree.find(&["a[1]"]).unwrap(), ["a[1]"]);
    }

    #[test]
    fn errors_name_the_input_and_give_a_hint() {
        let tree = Tree::new(&[("empty/_x", b""), ("fake.gz", b"text"), ("nothing.gz", b"")]);
        let error = |name: &str| tree.find(&[name]).unwrap_err();
        assert!(error("none").starts_with("input none does not exist; check"));
        assert!(error("*.txt").starts_with("input *.txt matches no file;"));
        assert!(error("a[*").starts_with("invalid glob a[*:"));
        assert!(error("empty").starts_with("input directory empty contains no input"));
        assert!(error("fake.gz").starts_with("input fake.gz has the extension of a gzip file but is not one;"));
        assert_eq!(tree.find(&["nothing.gz"]).unwrap(), ["nothing.gz"]);
        assert!(find_files(&["a".into()]).unwrap_err().to_string().contains("not an absolute path"));
        assert!(find_files(&[]).unwrap_err().to_string().contains("no input"));
        assert!(find_files(&["/proc/self/status".into()]).unwrap_err().to_string().contains("has content but no size"));
        assert!(find_files(&["/dev/null".into()]).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn the_first_bytes_determine_the_codec() {
        let of = |name: &str, bytes: &[u8]| detect_codec(name, &bytes.to_vec()).unwrap();
        assert_eq!(of("a", &[0x1f, 0x8b, 8, 0]), Codec::Gzip);
        assert_eq!(of("a.txt", &[0x28, 0xb5, 0x2f, 0xfd]), Codec::Zstd);
        assert_eq!(of("a", &[0x04, 0x22, 0x4d, 0x18]), Codec::Lz4);
        assert_eq!(of("a.zst", &[0x5d, 0x2a, 0x4d, 0x18]), Codec::Zstd);
        assert_eq!(of("a", &[0x1f]), Codec::Plain);
    }
}
