//! The module's functions in a build without the feature `hdfs`: every HDFS path is refused.

use crate::input::{InputError, ReadAt};
use crate::job::InputFile;
use std::io;

pub(crate) fn find_files(path: &str) -> Result<Vec<InputFile>, InputError> {
    Err(InputError::NoHdfs { path: path.to_owned() })
}

pub(crate) fn open(_name: &str, _read_to: u64) -> io::Result<Box<dyn ReadAt>> {
    let reason = "this worker was built without HDFS; start the coordinator and all workers from the same build";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}
