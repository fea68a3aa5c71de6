"""The scheduler as a service: observe, decide with the framework's engine, write.

`controller` owns the term. `informers` lists the watched resources and `engine_feed` passes changes to the engine.
`loop` lets the engine decide. `apply` turns decisions into calls and `api_dispatcher` sends them. `action_writer` and
`bind` make the outcome of each call certain. `pod_conditions` and `unreadable_objects` write status; `notify` records
Events.
"""
