// A simulated day with a nightly job, users of all sizes and two lost nodes.

export const DAY = `
[[jobs]]
name = "etl-nightly"
app = "sort"
maps = 900
reduces = 40
submit = "1m"
user = "etl"
pool = "prod"
[generate]
jobs = 160
users = 5
load = 0.75
maps_max = 900
`;
export const LAB = `
name = "lab"
heartbeat = "1s"
lost_after = "20s"
noise = 0.15
[[nodes]]
name = "node"
count = 40
racks = 2
map_slots = 4
reduce_slots = 2
[[faults.scripted]]
node = "node-17"
at = "4m"
back_after = "3m"
[[faults.scripted]]
node = "node-31"
at = "9m"
`;
