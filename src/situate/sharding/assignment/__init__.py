"""Decisions about one object: assign, drain, reassign, complete or archive. All functions are pure.

Input: a view of the object, the supervisor's memory of it, and the situation. Output: actions, verdict, new memory.
Read `decide` first: its phases run in order, and the first phase with a decision ends the pass.
The phases use `holder_status` (whether an executor may still work), `drain` (ask, wait, revoke) and `lost_holders`.
`executor_choice` chooses the executor for an object without a holder.
`archive_steps` gives the next step of an archiving, so that a crash at any step is harmless.
`fair_queue` orders waiting objects by priority and namespace. `desired_executors` sizes the pool for an autoscaler.
`conditions` builds the status conditions.
"""
