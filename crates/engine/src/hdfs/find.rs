//! Finding input in HDFS: files, folders and globs, as on the local disk.

use super::client::NameNode;
use super::conf::Conf;
use super::error::Problem;
use super::webhdfs::Whereabouts;
use crate::input::{InputError, packing};
use crate::job::{FileLocation, HdfsBlock, InputFile};
use hdfs_native::client::FileStatus;
use std::time::Duration;

/// The files that something typed stands for. They are called by whole names, with the NameNode's address.
pub(crate) fn find(typed: &str) -> Result<Vec<InputFile>, InputError> {
    let problem = |problem: Problem| InputError::NotInHdfs { path: typed.to_owned(), detail: problem.to_string() };
    let conf = Conf::read().map_err(problem)?;
    let (address, path) = conf.name(typed).map_err(problem)?;
    let node = NameNode::at(&address).map_err(problem)?;
    let mut whereabouts = Whereabouts::new(&conf, &address);
    let mut files = Vec::new();
    for status in named(&node, typed, &path)? {
        let name = format!("hdfs://{address}{}", status.path);
        let packing = packing(&name, &node.reader(&status.path, 0, Duration::ZERO))?;
        let bytes = status.length as u64;
        let blocks = whereabouts.of(&status.path, bytes).unwrap_or_else(|| somewhere(&status));
        files.push(InputFile { name, location: FileLocation::Hdfs(blocks), codec: packing, bytes });
    }
    Ok(files)
}

/// The files behind a path: itself, those of a folder, or those that match.
fn named(node: &NameNode, typed: &str, path: &str) -> Result<Vec<FileStatus>, InputError> {
    let problem = |problem: Problem| InputError::NotInHdfs { path: typed.to_owned(), detail: problem.to_string() };
    // As on the local disk: what exists is no glob.
    let found = match node.status(path).map_err(problem)? {
        Some(status) => vec![status],
        None if path.contains(['*', '?', '[', '{']) => {
            let last = path.rsplit('/').next().unwrap_or_default();
            let mut matches = node.matches(path).map_err(problem)?;
            matches.retain(|status| last.starts_with(['.', '_']) || !is_hidden(&status.path));
            matches
        }
        None => return Err(problem(Problem::Missing)),
    };
    if found.is_empty() {
        return Err(InputError::NoMatch { pattern: typed.to_owned() });
    }
    let mut files = Vec::new();
    for status in found {
        if !status.isdir {
            files.push(status);
            continue;
        }
        let (before, folder) = (files.len(), status.path);
        let below = node.files_below(&folder).map_err(problem)?;
        let inside =
            |file: &FileStatus| file.path.strip_prefix(&folder).is_some_and(|path| !path.split('/').any(is_hidden));
        files.extend(below.into_iter().filter(inside));
        if files.len() == before {
            return Err(InputError::EmptyFolder { path: typed.to_owned() });
        }
    }
    Ok(files)
}

/// Markers and half-written output.
fn is_hidden(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(['.', '_']))
}

/// The blocks of a file of which only their size is known.
fn somewhere(status: &FileStatus) -> Vec<HdfsBlock> {
    let size = status.blocksize.filter(|&size| size > 0).unwrap_or(u64::MAX);
    let bytes = status.length as u64;
    (0..bytes.div_ceil(size)).map(|block| HdfsBlock { offset: block * size, hosts: Vec::new() }).collect()
}
