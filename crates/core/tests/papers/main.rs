//! One test for each mechanism of the four papers, citing section, equation or algorithm.

mod chronos;
mod coshh;
mod fcs;
mod hadoop;
mod hand;
mod hsrtf;
