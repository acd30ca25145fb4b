//! Archived journals: `journal-NNNN` in the cluster directory, numbered in the order in which they ended. They serve `giveway history` and `replay` only, so
//! the oldest are removed when all together are too long.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

const PREFIX: &str = "journal-";

/// The number in the name of an archived journal.
pub(super) fn number(name: &OsStr) -> Option<u32> {
    let digits = name.to_str()?.strip_prefix(PREFIX)?;
    if digits.len() < 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

pub(super) fn name(number: u32) -> String {
    format!("{PREFIX}{number:04}")
}

/// Removes the oldest archives in a cluster directory until the others have at most `bytes_max`. What cannot be removed is logged and tried again after the
/// next one.
pub(super) fn remove_oldest(folder: &Path, bytes_max: u64) {
    if let Err(error) = try_remove_oldest(folder, bytes_max) {
        tracing::warn!("cannot remove archived journals in {}: {error}; remove the oldest by hand", folder.display());
    }
}

fn try_remove_oldest(folder: &Path, bytes_max: u64) -> io::Result<()> {
    let mut archives = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(number) = number(&entry.file_name())
            && let Ok(log) = fs::metadata(entry.path().join("log"))
        {
            archives.push((number, log.len(), entry.path()));
        }
    }
    archives.sort_unstable();
    let mut bytes: u64 = archives.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, length, path) in archives {
        if bytes <= bytes_max {
            break;
        }
        fs::remove_dir_all(&path)?;
        bytes -= length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // The last number has more digits than the others: names are not in the order of numbers.
        for name in ["journal", "journal-0002", "journal-9999", "journal-10000", "journal-1", "journal-0003.bak"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("log"), [0; 100]).unwrap();
        }
        remove_oldest(folder.path(), 300);
        assert!(at("journal-0002").exists());
        remove_oldest(folder.path(), 250);
        assert!(!at("journal-0002").exists() && at("journal-9999").exists());
        remove_oldest(folder.path(), 100);
        assert!(!at("journal-9999").exists() && at("journal-10000").exists());
        remove_oldest(folder.path(), 0);
        assert!(!at("journal-10000").exists());
        assert!(["journal", "journal-1", "journal-0003.bak"].iter().all(|name| at(name).exists()));
    }
}
