"""Plans: select the VMs to live-migrate, and their target nodes.

A planning function takes the state, a Pod or a node, the time and the rules.
The function returns a `Plan` and changes nothing.
Start with `plan`, the result, and `plan_for_pod`, which finds capacity for a Pod with an unmet request.
`node_relief` handles a node above its watermark, `drain` empties a node, and `retarget` replaces a failed target.
These modules share `candidates` (VMs that may migrate), `targets` (free capacity of each node) and `plan_builder`.
`rules` holds costs and limits, and `search` holds the algorithms.
"""
