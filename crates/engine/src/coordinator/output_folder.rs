//! The output folder of a job on disk: created, published and removed.
//!
//! A folder is created with the job's nonce in it, a random number from the job's plan, and only a folder with this job's nonce is ever removed: one
//! that somebody else has put in its place is left alone. Publishing removes the nonce with the temporary files, so a published output is never
//! removed.
//!
//! Every operation here is idempotent: a coordinator that is killed during one repeats it after its restart.

use crate::job::Plan;
use crate::task::{TEMPORARY, publish_map};
use giveway_core::AttemptId;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// File with the nonce, in the folder for temporary files.
const NONCE: &str = "_nonce";

/// File that marks an output as complete.
pub(super) const SUCCESS: &str = "_SUCCESS";

/// Makes files and the entries of folders durable.
pub(super) trait Sync {
    fn sync(&self, path: &Path) -> io::Result<()>;
}

/// Syncs to the disk.
pub(super) struct Disk;

impl Sync for Disk {
    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Creates the folder of a job or round under its final name, with its nonce and a folder for temporary files. Fails with `AlreadyExists` if there is
/// one that is not this job's; one of this job, which an interrupted coordinator left, is replaced.
pub(super) fn create(plan: &Plan) -> io::Result<()> {
    if let Some(parent) = plan.output.parent() {
        fs::create_dir_all(parent)?;
    }
    remove(&plan.output, plan.nonce)?;
    let new = hidden_name(&plan.output, "new", plan.nonce);
    remove_if_exists(&new)?;
    fs::create_dir(&new)?;
    fs::create_dir(new.join(TEMPORARY))?;
    fs::write(nonce_path(&new), nonce_text(plan.nonce))?;
    let renamed = rename_to_new(&new, &plan.output);
    if renamed.is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    renamed
}

/// Renames a folder. Fails with `AlreadyExists` if the new name is taken.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can do this in one step.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            if fs::symlink_metadata(to).is_ok() {
                Err(io::ErrorKind::AlreadyExists.into())
            } else {
                fs::rename(from, to)
            }
        }
        renamed => Ok(renamed?),
    }
}

/// Renames the outputs of a map-only job to their final names. Only those of the attempts that count are renamed.
pub(super) fn publish_map_pieces(plan: &Plan, pieces: &BTreeMap<(u32, u64), AttemptId>) -> io::Result<()> {
    pieces.iter().try_for_each(|(&(split, start_bytes), &map)| publish_map(plan, map, split, start_bytes))
}

/// Marks an output as complete: removes the temporary files and creates [`SUCCESS`]. If the job requested it, the mark is durable only after the
/// output is: a mark that is found after a power cut is true.
pub(super) fn publish(plan: &Plan, disk: &dyn Sync) -> io::Result<()> {
    let output = &plan.output;
    let sync = |path: &Path| if plan.request.sync_output { disk.sync(path) } else { Ok(()) };
    for entry in fs::read_dir(output)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            sync(&entry.path())?;
        }
    }
    sync(output)?;
    fs::write(output.join(SUCCESS), b"")?;
    sync(&output.join(SUCCESS))?;
    sync(output)?;
    if let Some(parent) = output.parent() {
        sync(parent)?;
    }
    // Last: until here the folder carries the nonce, and publishing can be repeated or the folder removed.
    remove_if_exists(&output.join(TEMPORARY))
}

/// Removes an output folder if it carries the nonce. It is renamed first: an attempt that is still running cannot write into it any more.
pub(super) fn remove(folder: &Path, nonce: u64) -> io::Result<()> {
    let renamed = hidden_name(folder, "removed", nonce);
    // Left by an interrupted removal. The name has the nonce, so it is this job's.
    remove_if_exists(&renamed)?;
    if !carries(folder, nonce) {
        return Ok(());
    }
    fs::rename(folder, &renamed)?;
    fs::remove_dir_all(&renamed)
}

/// True if a folder carries this nonce.
fn carries(folder: &Path, nonce: u64) -> bool {
    fs::read(nonce_path(folder)).is_ok_and(|found| found == nonce_text(nonce).as_bytes())
}

fn nonce_path(folder: &Path) -> PathBuf {
    folder.join(TEMPORARY).join(NONCE)
}

fn nonce_text(nonce: u64) -> String {
    format!("{nonce:016x}\n")
}

/// A hidden name beside a folder.
fn hidden_name(folder: &Path, purpose: &str, nonce: u64) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(folder.file_name().unwrap_or_default());
    name.push(format!(".{purpose}-{nonce:016x}"));
    folder.with_file_name(name)
}

fn remove_if_exists(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
