//! Paths of stored files: absolute and normalised, and unable to lead out of the directory their manifests are in.

use super::StoreError;
use std::borrow::Borrow;
use std::fmt;
use std::path::{Path, PathBuf};

/// A name that no stored file or directory at the root can have: the cluster's id is stored under it.
pub(super) const RESERVED_NAME: &str = ".cluster-id";

/// The scheme that precedes every path in user input and output.
pub const SCHEME: &str = "dfs:";

/// Limit of the whole path, in bytes.
const PATH_BYTES_MAX: usize = 2048;

/// Limit of one component, in bytes: that of the file systems the manifests are on.
const COMPONENT_BYTES_MAX: usize = 255;

/// The path of a stored file or directory, without the scheme; it begins with `/`. `/` itself is the root directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DfsPath(String);

impl DfsPath {
    /// Parses a path with its scheme, such as `dfs:/books/emma.txt`. Empty components, `.`, `..` and control characters are refused.
    pub fn parse(text: &str) -> Result<DfsPath, StoreError> {
        let invalid = |reason: &'static str| StoreError::InvalidPath { path: text.escape_debug().to_string(), reason };
        let path = text.strip_prefix(SCHEME).ok_or_else(|| invalid("it does not begin with dfs:/"))?;
        let components = path.strip_prefix('/').ok_or_else(|| invalid("it does not begin with dfs:/"))?;
        if path.len() > PATH_BYTES_MAX {
            return Err(invalid("it is longer than 2048 bytes"));
        }
        if components.is_empty() {
            return Ok(DfsPath("/".into()));
        }
        if components.split('/').next() == Some(RESERVED_NAME) {
            return Err(invalid("the name is reserved"));
        }
        for component in components.split('/') {
            match component {
                "" => return Err(invalid("a component is empty")),
                "." | ".." => return Err(invalid("`.` and `..` are not supported")),
                _ if component.len() > COMPONENT_BYTES_MAX => {
                    return Err(invalid("a component is longer than 255 bytes"));
                }
                _ if component.contains(char::is_control) => return Err(invalid("it contains control characters")),
                _ => {}
            }
        }
        Ok(DfsPath(path.into()))
    }

    /// True for the root directory.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The path with one more component. Fails if the component is invalid.
    pub fn join(&self, component: &str) -> Result<DfsPath, StoreError> {
        let slash = if self.is_root() { "" } else { "/" };
        DfsPath::parse(&format!("{self}{slash}{component}"))
    }

    /// The common prefix of all paths in this directory: the path with a `/` at its end.
    pub(super) fn dir_prefix(&self) -> String {
        if self.is_root() { "/".into() } else { format!("{}/", self.0) }
    }

    /// The directories it is in, outermost first, without the root.
    pub(super) fn parents(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').skip(1).map(|(at, _)| &self.0[..at])
    }

    /// The local path that corresponds to this one below a local directory.
    pub(super) fn below(&self, dir: &Path) -> PathBuf {
        dir.join(&self.0[1..])
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for DfsPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DfsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_paths_are_kept_unchanged() {
        for text in ["dfs:/a", "dfs:/a/b c/ü.txt", "dfs:/...", "dfs:/-rf", "dfs:/a/.hidden"] {
            assert_eq!(DfsPath::parse(text).unwrap().to_string(), text);
        }
        assert!(DfsPath::parse("dfs:/").unwrap().is_root());
        assert_eq!(DfsPath::parse("dfs:/").unwrap().join("a").unwrap().join("b").unwrap().to_string(), "dfs:/a/b");
    }

    #[test]
    fn invalid_paths_are_refused() {
        let long = format!("dfs:/{}", "x".repeat(256));
        let deep = format!("dfs:{}", "/xxxxxxx".repeat(300));
        let invalid = [
            "",
            "a",
            "/a",
            "dfs:",
            "dfs:a",
            "dfs:../a",
            "dfs://a",
            "dfs:/a//b",
            "dfs:/a/",
            "dfs:/..",
            "dfs:/a/../b",
            "dfs:/./a",
            "dfs:/a\nb",
            "dfs:/a\0",
            "dfs:/\u{7f}",
            "DFS:/a",
            &long,
            &deep,
        ];
        for text in invalid {
            let error = DfsPath::parse(text).unwrap_err().to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
        }
        assert!(DfsPath::parse("dfs:/a").unwrap().join("../b").is_err());
    }

    #[test]
    fn parents_are_listed_outermost_first() {
        assert_eq!(DfsPath::parse("dfs:/a/b/c").unwrap().parents().collect::<Vec<_>>(), ["/a", "/a/b"]);
        assert_eq!(DfsPath::parse("dfs:/a").unwrap().parents().count(), 0);
        assert_eq!(DfsPath::parse("dfs:/a/b").unwrap().below(Path::new("/x")), Path::new("/x/a/b"));
    }
}
