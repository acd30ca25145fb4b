//! What the processes of a node use, from `/proc`.

use rustix::param::{clock_ticks_per_second, page_size};
use std::fs;

/// Processes of one node that are counted, so that a loop in a damaged `/proc` ends.
const PROCESSES_MAX: usize = 1_000;

/// Processor time in seconds and resident memory in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub cpu_s: f64,
    pub memory_bytes: u64,
}

/// Of a process and all that descend from it: a worker and the programs that run its tasks. None if there is no such process.
pub(super) fn of_process(pid: u32) -> Option<Usage> {
    let mut usage = of_one(pid)?;
    let mut parents = vec![pid];
    let mut count = 0;
    while let Some(parent) = parents.pop().filter(|_| count < PROCESSES_MAX) {
        for child in children(parent) {
            let Some(more) = of_one(child) else { continue };
            usage.cpu_s += more.cpu_s;
            usage.memory_bytes += more.memory_bytes;
            parents.push(child);
            count += 1;
        }
    }
    Some(usage)
}

/// Children that have ended are part of its processor time.
fn of_one(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain spaces. Then, by proc(5): utime, stime, cutime, cstime are fields 14 to 17, rss is 24; the first one here is 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks: u64 = (14..=17).map(field).sum::<Option<u64>>()?;
    Some(Usage { cpu_s: ticks as f64 / clock_ticks_per_second() as f64, memory_bytes: field(24)? * page_size() as u64 })
}

/// Every thread may have started some.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_counts_with_its_children() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        // The child's memory is counted with its parent's.
        let of_child = of_process(child.id()).unwrap();
        let (alone, together) = (of_one(std::process::id()).unwrap(), of_process(std::process::id()).unwrap());
        assert!(of_child.memory_bytes > 0 && together.memory_bytes > alone.memory_bytes);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(of_process(child.id()).is_none());
    }
}
