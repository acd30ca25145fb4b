//! Small cluster states for the unit tests of the parts.

use crate::event::{JobSpec, NodeSpec, Priority, Split};
use crate::ids::{JobId, NodeId, RackId};
use crate::state::{JobKey, State};
use crate::units::{Time, WHOLE_PPM};

/// Identical nodes of speed 1 in one rack.
pub(super) fn cluster(nodes: u32, map_slots: u16, reduce_slots: u16) -> State {
    let mut state = State::default();
    let spec = NodeSpec {
        name: String::new(),
        rack: RackId(0),
        map_slots,
        reduce_slots,
        speed_ppm: WHOLE_PPM,
        disk_bytes_per_s: 1,
        disk_bytes: 1,
    };
    (0..nodes).for_each(|node| state.add_node(NodeId(node), &spec));
    state
}

/// A job without replicas and without slow start.
pub(super) fn job(id: u32, maps: u32, reduces: u32) -> JobSpec {
    JobSpec {
        external_id: None,
        id: JobId(id),
        name: String::new(),
        user: String::new(),
        pool: String::new(),
        priority: Priority::Normal,
        splits: vec![Split::default(); maps as usize].into(),
        reduces,
        slowstart_ppm: 0,
        hint: None,
        estimate_bias_ppm: WHOLE_PPM,
    }
}

/// Submits a job at time zero.
pub(super) fn submit(state: &mut State, spec: &JobSpec) -> JobKey {
    state.add_job(spec, 0, false, Time::ZERO)
}

/// The instant this many seconds after time zero.
pub(super) fn at(secs: f64) -> Time {
    Time::from_secs_f64(secs)
}
