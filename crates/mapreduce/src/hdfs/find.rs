//! Expands HDFS paths into input files: files, directories and globs, with the rules of local paths.

use super::client::NameNode;
use super::conf::HadoopConf;
use super::error::HdfsError;
use super::webhdfs::BlockLocator;
use crate::input::{InputError, detect_codec};
use crate::job::{FileLocation, HdfsBlock, InputFile};
use hdfs_native::client::FileStatus;
use std::time::Duration;

/// The files of an HDFS path. Their names contain the NameNode's address.
pub(crate) fn find_files(path: &str) -> Result<Vec<InputFile>, InputError> {
    let failed = |error: HdfsError| InputError::Hdfs { path: path.to_owned(), source: error.into() };
    let conf = HadoopConf::read().map_err(failed)?;
    let (address, hdfs_path) = conf.resolve(path).map_err(failed)?;
    let namenode = NameNode::at(&address).map_err(failed)?;
    let mut locator = BlockLocator::new(&conf, &address);
    let mut files = Vec::new();
    for status in expand(&namenode, path, &hdfs_path)? {
        let name = format!("hdfs://{address}{}", status.path);
        let packing = detect_codec(&name, &namenode.reader(&status.path, 0, Duration::ZERO))?;
        let bytes = status.length as u64;
        let blocks = locator.locate(&status.path, bytes).unwrap_or_else(|| blocks_without_hosts(&status));
        files.push(InputFile { name: name.into(), location: FileLocation::Hdfs(blocks), codec: packing, bytes });
    }
    Ok(files)
}

/// The status of the file, of the files below a directory, or of the matches of a glob. `input` is the path for error messages.
fn expand(namenode: &NameNode, input: &str, path: &str) -> Result<Vec<FileStatus>, InputError> {
    let failed = |error: HdfsError| InputError::Hdfs { path: input.to_owned(), source: error.into() };
    // As for local paths: an existing path is not a glob.
    let found = match namenode.status(path).map_err(failed)? {
        Some(status) => vec![status],
        None if path.contains(['*', '?', '[', '{']) => {
            let last = path.rsplit('/').next().unwrap_or_default();
            let mut matches = namenode.glob(path).map_err(failed)?;
            matches.retain(|status| last.starts_with(['.', '_']) || !is_hidden(&status.path));
            matches
        }
        None => return Err(failed(HdfsError::NotFound)),
    };
    if found.is_empty() {
        return Err(InputError::NoMatch { pattern: input.to_owned() });
    }
    let mut files = Vec::new();
    for status in found {
        if !status.isdir {
            files.push(status);
            continue;
        }
        let (before, dir) = (files.len(), status.path);
        let below = namenode.files_below(&dir).map_err(failed)?;
        let is_input =
            |file: &FileStatus| file.path.strip_prefix(&dir).is_some_and(|path| !path.split('/').any(is_hidden));
        files.extend(below.into_iter().filter(is_input));
        if files.len() == before {
            return Err(InputError::EmptyDirectory { path: input.to_owned() });
        }
    }
    Ok(files)
}

/// True for markers and uncommitted output.
fn is_hidden(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(['.', '_']))
}

/// The blocks of a file computed from its block size, without locations.
fn blocks_without_hosts(status: &FileStatus) -> Vec<HdfsBlock> {
    let size = status.blocksize.filter(|&size| size > 0).unwrap_or(u64::MAX);
    let bytes = status.length as u64;
    (0..bytes.div_ceil(size)).map(|block| HdfsBlock { offset: block * size, hosts: Vec::new() }).collect()
}
