//! One test for each mechanism of the four papers, citing section, equation or algorithm, and tests of Hadoop's own schedulers.

mod chronos;
mod coshh;
mod failures;
mod fcs;
mod hadoop;
mod hsrtf;
mod manual_cluster;
