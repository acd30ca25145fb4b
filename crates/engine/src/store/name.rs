//! Names of stored files: absolute, plain, and unable to lead out of the folder their manifests are in.

use super::StoreError;
use std::borrow::Borrow;
use std::fmt;
use std::path::{Path, PathBuf};

/// What stands before every name where people write it.
pub const SCHEME: &str = "dfs:";

/// The longest name, and the longest part of one (what file systems allow).
const NAME_BYTES_MAX: usize = 2048;
const PART_BYTES_MAX: usize = 255;

/// The name of a file or folder, from `/` on. `/` itself is the folder of all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Reads a name as people write it, `dfs:/books/emma.txt`.
    pub fn parse(text: &str) -> Result<Name, StoreError> {
        let bad = |why: &'static str| StoreError::BadName { name: text.escape_debug().to_string(), why };
        let path = text.strip_prefix(SCHEME).ok_or_else(|| bad("it does not begin with dfs:/"))?;
        let parts = path.strip_prefix('/').ok_or_else(|| bad("it does not begin with dfs:/"))?;
        if path.len() > NAME_BYTES_MAX {
            return Err(bad("it is longer than 2048 bytes"));
        }
        if parts.is_empty() {
            return Ok(Name("/".into()));
        }
        for part in parts.split('/') {
            match part {
                "" => return Err(bad("a part of it is empty")),
                "." | ".." => return Err(bad("`.` and `..` lead nowhere here")),
                _ if part.len() > PART_BYTES_MAX => return Err(bad("a part of it is longer than 255 bytes")),
                _ if part.contains(char::is_control) => return Err(bad("it has control characters")),
                _ => {}
            }
        }
        Ok(Name(path.into()))
    }

    /// True for the folder of all.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The same name with one more part.
    pub fn join(&self, part: &str) -> Result<Name, StoreError> {
        let slash = if self.is_root() { "" } else { "/" };
        Name::parse(&format!("{self}{slash}{part}"))
    }

    /// What all names in this folder begin with.
    pub(super) fn as_folder(&self) -> String {
        if self.is_root() { "/".into() } else { format!("{}/", self.0) }
    }

    /// The folders it is in, without the folder of all.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').skip(1).map(|(at, _)| &self.0[..at])
    }

    /// Where something of this name is below a folder.
    pub(super) fn below(&self, folder: &Path) -> PathBuf {
        folder.join(&self.0[1..])
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_taken_as_they_are() {
        for text in ["dfs:/a", "dfs:/a/b c/ü.txt", "dfs:/...", "dfs:/-rf", "dfs:/a/.hidden"] {
            assert_eq!(Name::parse(text).unwrap().to_string(), text);
        }
        assert!(Name::parse("dfs:/").unwrap().is_root());
        assert_eq!(Name::parse("dfs:/").unwrap().join("a").unwrap().join("b").unwrap().to_string(), "dfs:/a/b");
    }

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        let long = format!("dfs:/{}", "x".repeat(256));
        let deep = format!("dfs:{}", "/xxxxxxx".repeat(300));
        let wrong = [
            "", "a", "/a", "dfs:", "dfs:a", "dfs:../a", "dfs://a", "dfs:/a//b", "dfs:/a/", "dfs:/..", "dfs:/a/../b",
            "dfs:/./a", "dfs:/a\nb", "dfs:/a\0", "dfs:/\u{7f}", "DFS:/a", &long, &deep,
        ];
        for text in wrong {
            let error = Name::parse(text).unwrap_err().to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
        }
        assert!(Name::parse("dfs:/a").unwrap().join("../b").is_err());
    }

    #[test]
    fn a_name_knows_its_folders() {
        assert_eq!(Name::parse("dfs:/a/b/c").unwrap().folders().collect::<Vec<_>>(), ["/a", "/a/b"]);
        assert_eq!(Name::parse("dfs:/a").unwrap().folders().count(), 0);
        assert_eq!(Name::parse("dfs:/a/b").unwrap().below(Path::new("/x")), Path::new("/x/a/b"));
    }
}
