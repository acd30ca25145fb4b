//! Documents: input files under short, distinct names.
//!
//! A document's name is its path below the common parent directory of all input files. That directory is computed once, in `prepare`, and passed to
//! the tasks in the plan's notes.

use crate::job::Plan;
use std::ffi::{OsStr, OsString};

/// Document names of input files. The name of the last file is cached.
pub(super) struct Documents {
    parent: Vec<u8>,
    file: OsString,
    name: Vec<u8>,
}

impl Documents {
    /// Stores the common parent directory in the plan.
    pub(super) fn prepare(plan: &mut Plan) {
        let names: Vec<&[u8]> = plan.files.iter().map(|file| file.name.as_encoded_bytes()).collect();
        plan.app_data = common_parent(&names).to_vec();
    }

    /// The document names of a prepared plan.
    pub(super) fn new(plan: &Plan) -> Documents {
        Documents { parent: plan.app_data.clone(), file: OsString::new(), name: Vec::new() }
    }

    /// The document name of a file. Control characters are replaced by `?`.
    pub(super) fn name(&mut self, file: &OsStr) -> &[u8] {
        if self.file != file {
            self.file = file.to_owned();
            let name = file.as_encoded_bytes();
            let name = name.strip_prefix(self.parent.as_slice()).unwrap_or(name);
            // A newline in a file's name must not break a line of the output.
            self.name = name.iter().map(|&byte| if byte.is_ascii_control() { b'?' } else { byte }).collect();
        }
        &self.name
    }
}

/// The deepest directory that contains all paths, with a `/` at its end; empty if there is none.
fn common_parent<'a>(names: &[&'a [u8]]) -> &'a [u8] {
    let Some((&first, others)) = names.split_first() else { return b"" };
    let parent = |path: &'a [u8]| memchr::memrchr(b'/', path).map_or(&b""[..], |slash| &path[..=slash]);
    let mut shared = parent(first);
    for other in others {
        while !other.starts_with(shared) {
            shared = parent(&shared[..shared.len() - 1]);
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_parent_is_the_deepest_directory() {
        let parent = |names: &[&'static str]| {
            let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
            String::from_utf8(common_parent(&names).to_vec()).unwrap()
        };
        assert_eq!(parent(&["/in/a.txt"]), "/in/");
        assert_eq!(parent(&["/in/a.txt", "/in/b.txt"]), "/in/");
        assert_eq!(parent(&["/in/2024/a", "/in/2025/a", "/in/b"]), "/in/");
        assert_eq!(parent(&["/inner/a", "/in/a"]), "/");
        assert_eq!(parent(&["hdfs://h:1/x/a", "/x/a"]), "");
        assert_eq!(parent(&[]), "");
    }
}
