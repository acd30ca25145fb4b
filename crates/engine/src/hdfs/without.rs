//! What a program that was built without HDFS says.

use crate::input::{InputError, ReadAt};
use crate::job::InputFile;
use std::io;

pub(crate) fn find(typed: &str) -> Result<Vec<InputFile>, InputError> {
    Err(InputError::NoHdfs { path: typed.to_owned() })
}

pub(crate) fn open(_name: &str, _read_to: u64) -> io::Result<Box<dyn ReadAt>> {
    let what = "this worker was built without HDFS; start all workers from one program";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}
