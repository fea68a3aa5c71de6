"""The `spot:` section of the configuration file, validated.

Input: the decoded YAML section. Output: `SpotSettings`, or an error that names the unknown key or wrong value.
Read `settings`, the only module: one class for each block, such as prices and the webhook.
`situate.runtime.configuration.file` reads the file. `situate.spot.model.policy_limits` holds the blocks that decisions
read: evictions and returns.
"""
