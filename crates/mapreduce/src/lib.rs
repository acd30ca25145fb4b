//! MapReduce as a library: what a job computes, without the cluster that runs it.
//!
//! An application implements [`App`](apps::App) with a [`Mapper`](record::Mapper) and a [`Reducer`](record::Reducer). [`apps::plan`] turns a
//! [`Request`](job::Request) into a [`Plan`](job::Plan): it finds the input files and divides them into splits. [`reference::run`] then runs the plan in this
//! thread; `giveway-engine` runs the same plan in many processes, and its output is the same, byte for byte.
//!
//! ```
//! use giveway_core::JobId;
//! use giveway_mapreduce::apps::{self, App};
//! use giveway_mapreduce::job::{Plan, Request};
//! use giveway_mapreduce::record::{AppError, Emit, Mapper, Record, Reducer, Values};
//! use giveway_mapreduce::reference;
//!
//! /// The longest line that begins with each letter.
//! struct Longest;
//!
//! impl App for Longest {
//!     fn name(&self) -> &'static str {
//!         "longest"
//!     }
//!
//!     fn about(&self) -> &'static str {
//!         "find the longest line that begins with each letter"
//!     }
//!
//!     fn mapper(&self, _: &Plan) -> Result<Box<dyn Mapper>, AppError> {
//!         Ok(Box::new(Longest))
//!     }
//!
//!     fn reducer(&self, _: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
//!         Ok(Some(Box::new(Longest)))
//!     }
//! }
//!
//! impl Mapper for Longest {
//!     fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
//!         if let Some(first) = record.line.first() {
//!             out.emit(&[*first], record.line);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! impl Reducer for Longest {
//!     fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
//!         let mut longest = Vec::new();
//!         while let Some(line) = values.next() {
//!             if line.len() > longest.len() {
//!                 longest = line.to_vec();
//!             }
//!         }
//!         out.emit(key, &longest);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("input"), "apple\nbanana\navocado\n")?;
//! let request = Request::new("longest", [folder.path().join("input")], folder.path().join("output"));
//! let plan = apps::plan(&Longest, JobId(1), request).map_err(|error| error.to_string())?;
//! let output = reference::run(&Longest, &plan)?;
//! assert_eq!(output, [("part-r-00000".to_owned(), b"a\tavocado\nb\tbanana\n".to_vec())]);
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`record`] | records, and what mappers, combiners and reducers implement |
//! | [`apps`] | applications: the trait, the built-in ones, planning |
//! | [`job`] | a job as submitted and as planned |
//! | [`input`], [`hdfs`] | files, splits and lines; files in HDFS |
//! | [`data`] | sorting, combining, spilling and merging records; map outputs with checksums |
//! | [`mod@reference`] | a sequential MapReduce, with which outputs are compared |
//! | [`task_log`], [`watchdog`] | what tasks print; the programs that they start |

pub mod apps;
mod byte_masks;
pub mod data;
pub mod fuzz;
pub mod hdfs;
pub mod input;
pub mod job;
pub mod path_bytes;
pub mod record;
pub mod reference;
pub mod task_log;
pub mod watchdog;
