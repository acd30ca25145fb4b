//! What happened, in numbers.

/// What happened in a run, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Steps of the scheduler.
    pub events: u64,
    /// Killed processes, without power cuts.
    pub kills: u64,
    pub power_cuts: u64,
    /// Starts of a coordinator that recovered a journal.
    pub recoveries: u64,
    /// Files of which a power cut left a part, or an old state.
    pub torn_writes: u64,
    /// Broken connections, other than by a kill.
    pub links_cut: u64,
    /// Coordinators that ended because they could not write their journal.
    pub journal_errors: u64,
    /// Changed bits of the journal, all found.
    pub bit_flips: u64,
    /// Journals that were replaced by a new one.
    pub journals: u64,
    /// Snapshots in the journals at the end.
    pub snapshots: u64,
    /// Records of the event logs in all journals, replayed at the end with the same actions.
    pub replayed_records: u64,
    /// File operations of the coordinator.
    pub file_operations: u64,
    pub succeeded: u64,
    /// Jobs that were killed.
    pub killed: u64,
    pub failed: u64,
    /// Virtual time in seconds.
    pub virtual_s: u64,
}

impl Figures {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Figures) {
        self.events += other.events;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.recoveries += other.recoveries;
        self.torn_writes += other.torn_writes;
        self.links_cut += other.links_cut;
        self.journal_errors += other.journal_errors;
        self.bit_flips += other.bit_flips;
        self.journals += other.journals;
        self.snapshots += other.snapshots;
        self.replayed_records += other.replayed_records;
        self.file_operations += other.file_operations;
        self.succeeded += other.succeeded;
        self.killed += other.killed;
        self.failed += other.failed;
        self.virtual_s += other.virtual_s;
    }
}
