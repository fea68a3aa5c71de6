"""The values of sharding: objects, executors, actions, patches and the supervisor's configuration.

Input: custom resources as JSON, which may hold any mistake. Output: checked views, and the patch of each action.
Read `names` (keys and reasons), `field_paths` (where fields are) and `object_view` (one parsed object) first.
Then read `executors` (the members) and `decision_inputs` (every argument and result of a decision).
`actions` are the orders of a supervisor. `patches` turns an order into a guarded JSON patch.
`supervisor_config` and `option_values` check the settings. `errors` explains why an object cannot be placed.
"""
