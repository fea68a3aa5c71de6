"""Invariants of vpod, checked after every step and at every write.

`rules` holds the safety rules. `decisions` checks each decision before it is stored; `memory` checks the state that a
process remembers. `liveness` times the promises L1 to L5 while no fault is active; `demand` and `outages` say when
they apply.
"""
