//! The output folder of a job: created, published and removed.
//!
//! A folder is created with the job's nonce in it, a random number from the job's plan, and only a folder with this job's nonce is ever removed: one
//! that somebody else has put in its place is left alone. Publishing moves the nonce into the mark of a complete output, so a published output is
//! never removed, and is recognized if the publication was interrupted before it was journalled.
//!
//! Every operation here is idempotent: a coordinator that is killed during one repeats it after its restart. Unless the job was submitted without
//! syncing, each is durable when it returns, so what the journal says about a folder is true after a power cut.
//!
//! Nobody else may know the nonce while it is in the folder: the file has mode 0600, and the names beside the folder have a hash of it.

use super::file_system::{FileSystem, is_absence};
use crate::job::Plan;
use crate::planted::{Bug, planted};
use crate::task::{NONCE, TEMPORARY, map_part_path, nonce_text, reduce_part_path, temporary_path};
use giveway_core::AttemptId;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// File that marks an output as complete. Has the job's nonce.
pub(crate) const SUCCESS: &str = "_SUCCESS";

/// Creates the folder of a job or round under its final name, with its nonce and a folder for temporary files. Fails with `AlreadyExists` if there is
/// one that is not this job's; one of this job, which an interrupted coordinator left, is replaced.
pub(super) fn create(plan: &Plan, disk: &dyn FileSystem) -> io::Result<()> {
    if let Some(parent) = plan.output.parent() {
        disk.create_folders(parent).map_err(|error| match error.kind() {
            // What exists is in the way of the output, and is not the output.
            io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
            _ => error,
        })?;
    }
    remove(&plan.output, plan.nonce, disk)?;
    let new = hidden_name(&plan.output, "new", plan.nonce);
    let fill = || {
        disk.create_folder(&new)?;
        disk.create_folder(&new.join(TEMPORARY))?;
        disk.write_private(&nonce_path(&new), nonce_text(plan.nonce).as_bytes())?;
        if plan.request.sync_output {
            disk.sync(&nonce_path(&new))?;
            disk.sync(&new.join(TEMPORARY))?;
            disk.sync(&new)?;
        }
        disk.rename_to_new(&new, &plan.output)?;
        sync_parent(plan, disk)
    };
    let created = fill();
    if created.is_err() {
        let _ = disk.remove_folder(&new);
    }
    created
}

/// Renames the outputs of a map-only job to their final names. Only those of the attempts that count are renamed.
pub(super) fn publish_map_pieces(
    plan: &Plan,
    pieces: &BTreeMap<(u32, u64), AttemptId>,
    disk: &dyn FileSystem,
) -> io::Result<()> {
    for (&(split, start_bytes), &map) in pieces {
        let part = map_part_path(plan, split, start_bytes);
        match disk.rename(&temporary_path(plan, map), &part) {
            // Renamed before an interruption.
            Err(error) if error.kind() == io::ErrorKind::NotFound && disk.exists(&part)? => {}
            renamed => renamed?,
        }
    }
    Ok(())
}

/// Marks an output as complete: creates [`SUCCESS`] and removes the temporary files. If the job requested it, the mark is durable only after the
/// output is: a mark that is found after a power cut is true. Fails with `NotFound` if a part is missing, or if the folder is not this job's.
pub(super) fn publish(plan: &Plan, disk: &dyn FileSystem) -> io::Result<()> {
    let output = &plan.output;
    let is_synced = plan.request.sync_output && !planted(Bug::PublishedUnsynced);
    let sync = |path: &Path| if is_synced { disk.sync(path) } else { Ok(()) };
    check_nonce(plan, disk)?;
    for part in (0..plan.reduces).map(|reduce| reduce_part_path(plan, reduce)) {
        if !disk.exists(&part)? {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is missing", part.display())));
        }
    }
    for entry in disk.list(output)? {
        if entry.is_file {
            sync(&output.join(&entry.name))?;
        }
    }
    sync(output)?;
    disk.write(&output.join(SUCCESS), nonce_text(plan.nonce).as_bytes())?;
    sync(&output.join(SUCCESS))?;
    sync(output)?;
    // Last: until here the folder carries the nonce, and publishing can be repeated or the folder removed.
    remove_temporary(plan, disk)
}

/// Whether this job's output was published, except that temporary files may be left.
pub(super) fn is_published(plan: &Plan, disk: &dyn FileSystem) -> io::Result<bool> {
    Ok(has_nonce(&plan.output.join(SUCCESS), plan.nonce, disk)? && !carries(&plan.output, plan.nonce, disk)?)
}

/// Removes the temporary files of a published output.
pub(super) fn remove_temporary(plan: &Plan, disk: &dyn FileSystem) -> io::Result<()> {
    disk.remove_folder(&plan.output.join(TEMPORARY))?;
    if plan.request.sync_output && !planted(Bug::PublishedUnsynced) { disk.sync(&plan.output) } else { Ok(()) }
}

/// Fails with `NotFound` if the output folder is not this job's.
pub(super) fn check_nonce(plan: &Plan, disk: &dyn FileSystem) -> io::Result<()> {
    match carries(&plan.output, plan.nonce, disk)? {
        true => Ok(()),
        false => {
            Err(io::Error::new(io::ErrorKind::NotFound, "the directory is not the one that was created for this job"))
        }
    }
}

/// Removes an output folder if it carries the nonce, and what an interrupted creation or removal has left. It is renamed first: an attempt that is
/// still running cannot write into it any more.
pub(super) fn remove(folder: &Path, nonce: u64, disk: &dyn FileSystem) -> io::Result<()> {
    // The names are made from the nonce, so they are this job's.
    disk.remove_folder(&hidden_name(folder, "new", nonce))?;
    let renamed = hidden_name(folder, "removed", nonce);
    disk.remove_folder(&renamed)?;
    let is_own = |folder: &Path| {
        Ok::<_, io::Error>(
            carries(folder, nonce, disk)? || (planted(Bug::ForeignFolderRemoved) && disk.exists(folder)?),
        )
    };
    if !is_own(folder)? {
        return Ok(());
    }
    disk.rename(folder, &renamed)?;
    // Who may write to the folder above may have exchanged it before it was renamed.
    if !is_own(&renamed)? {
        return disk.rename_to_new(&renamed, folder);
    }
    disk.remove_folder(&renamed)
}

/// Makes the entry of the output folder durable if the job requested it.
pub(super) fn sync_parent(plan: &Plan, disk: &dyn FileSystem) -> io::Result<()> {
    match plan.output.parent() {
        Some(parent) if plan.request.sync_output => disk.sync(parent),
        _ => Ok(()),
    }
}

/// Whether a folder carries this nonce.
fn carries(folder: &Path, nonce: u64, disk: &dyn FileSystem) -> io::Result<bool> {
    has_nonce(&nonce_path(folder), nonce, disk)
}

/// Whether this is a file with the nonce. An unreadable one is an error: it may be this job's.
fn has_nonce(file: &Path, nonce: u64, disk: &dyn FileSystem) -> io::Result<bool> {
    match disk.read(file) {
        Ok(found) => Ok(found == nonce_text(nonce).as_bytes()),
        Err(error) if is_absence(&error) || error.kind() == io::ErrorKind::IsADirectory => Ok(false),
        Err(error) => Err(error),
    }
}

fn nonce_path(folder: &Path) -> PathBuf {
    folder.join(TEMPORARY).join(NONCE)
}

/// A hidden name beside a folder. Who sees one of a job cannot guess the others, and so cannot put a folder there that would then be removed.
fn hidden_name(folder: &Path, purpose: &str, nonce: u64) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(folder.file_name().unwrap_or_default());
    let digest = Sha256::digest([&nonce.to_le_bytes(), purpose.as_bytes()].concat());
    let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    name.push(format!(".{purpose}-{hash}"));
    folder.with_file_name(name)
}
