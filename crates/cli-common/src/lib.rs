//! What several commands of `giveway` share: the names and files they are given, and how results are shown.
//!
//! | module | contents |
//! |---|---|
//! | [`input`], [`traces`] | names and files as policies, workloads, clusters and recorded runs |
//! | [`report`] | the HTML report and its drawings |
//! | [`table`], [`text_table`] | tables of metrics; any table as text |
//! | [`rows`] | tables with a row for each job or attempt, as files |
//! | [`files`] | files that are replaced as a whole |
//! | [`progress`], [`signals`] | progress bars; SIGINT, SIGTERM and SIGHUP |

pub mod files;
pub mod input;
pub mod progress;
pub mod report;
pub mod rows;
pub mod signals;
pub mod table;
pub mod text_table;
pub mod traces;
