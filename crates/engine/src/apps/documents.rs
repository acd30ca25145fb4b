//! Documents: input files under short, distinct names.
//!
//! A document's name is its path below the common parent directory of all input files. That directory is computed once, in `prepare`, and passed to
//! the tasks in the plan's notes.

use crate::job::Plan;

/// Document names of input files. The name of the last file is cached.
pub(super) struct Documents {
    parent: String,
    file: String,
    name: Vec<u8>,
}

impl Documents {
    /// Stores the common parent directory in the plan.
    pub(super) fn prepare(plan: &mut Plan) {
        let names: Vec<&str> = plan.files.iter().map(|file| file.name.as_str()).collect();
        plan.app_data = common_parent(&names).as_bytes().to_vec();
    }

    /// The document names of a prepared plan.
    pub(super) fn new(plan: &Plan) -> Documents {
        let parent = String::from_utf8_lossy(&plan.app_data).into_owned();
        Documents { parent, file: String::new(), name: Vec::new() }
    }

    /// The document name of a file. Control characters are replaced by `?`.
    pub(super) fn name(&mut self, file: &str) -> &[u8] {
        if self.file != file {
            self.file = file.to_owned();
            let name = file.strip_prefix(&self.parent).unwrap_or(file);
            // A newline in a file's name must not break a line of the output.
            self.name = name.bytes().map(|byte| if byte.is_ascii_control() { b'?' } else { byte }).collect();
        }
        &self.name
    }
}

/// The deepest directory that contains all paths, with a `/` at its end; empty if there is none.
fn common_parent<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, others)) = names.split_first() else { return "" };
    let mut shared = first.rfind('/').map_or(0, |slash| slash + 1);
    for other in others {
        while !other.as_bytes().starts_with(&first.as_bytes()[..shared]) {
            shared = first[..shared - 1].rfind('/').map_or(0, |slash| slash + 1);
        }
    }
    &first[..shared]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_parent_is_the_deepest_directory() {
        assert_eq!(common_parent(&["/in/a.txt"]), "/in/");
        assert_eq!(common_parent(&["/in/a.txt", "/in/b.txt"]), "/in/");
        assert_eq!(common_parent(&["/in/2024/a", "/in/2025/a", "/in/b"]), "/in/");
        assert_eq!(common_parent(&["/inner/a", "/in/a"]), "/");
        assert_eq!(common_parent(&["dfs:/x/a", "/x/a"]), "");
        assert_eq!(common_parent(&[]), "");
    }
}
