//! Documents: input files by names that are short and still distinct.
//!
//! A document is called by its path below the folder that all input files share. That folder is worked out once, in `prepare`, and
//! travels in the plan's notes.

use crate::job::Plan;

/// What mappers call the files they read.
pub(super) struct Documents {
    folder: String,
    file: String,
    name: Vec<u8>,
}

impl Documents {
    /// Notes the shared folder in the plan.
    pub(super) fn prepare(plan: &mut Plan) {
        let names: Vec<&str> = plan.files.iter().map(|file| file.name.as_str()).collect();
        plan.app_data = shared_folder(&names).as_bytes().to_vec();
    }

    /// The names, for a mapper.
    pub(super) fn of(plan: &Plan) -> Documents {
        let folder = String::from_utf8_lossy(&plan.app_data).into_owned();
        Documents { folder, file: String::new(), name: Vec::new() }
    }

    /// What this file is called.
    pub(super) fn name(&mut self, file: &str) -> &[u8] {
        if self.file != file {
            self.file = file.to_owned();
            let name = file.strip_prefix(&self.folder).unwrap_or(file);
            // A line end in a file's name must not end a line of the output.
            self.name = name.bytes().map(|byte| if byte.is_ascii_control() { b'?' } else { byte }).collect();
        }
        &self.name
    }
}

/// The folder all these paths are in, with a `/` at its end.
fn shared_folder<'a>(names: &[&'a str]) -> &'a str {
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
    fn names_begin_where_paths_part() {
        assert_eq!(shared_folder(&["/in/a.txt"]), "/in/");
        assert_eq!(shared_folder(&["/in/a.txt", "/in/b.txt"]), "/in/");
        assert_eq!(shared_folder(&["/in/2024/a", "/in/2025/a", "/in/b"]), "/in/");
        assert_eq!(shared_folder(&["/inner/a", "/in/a"]), "/");
        assert_eq!(shared_folder(&["dfs:/x/a", "/x/a"]), "");
        assert_eq!(shared_folder(&[]), "");
    }
}
