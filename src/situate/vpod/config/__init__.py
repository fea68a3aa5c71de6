"""The `vpod:` section of the configuration file: one validated entry for each StatefulSet.

Input: the decoded YAML section and Knative's environment variables. Output: `StatefulSetSettings`, or an error.
Read `settings`, the only module. It has one class for each block: scale cache, drain, pack, rebalance, quota, sources.
`situate.runtime.configuration.file` reads the file. `situate.vpod.model.options` holds the values that decisions read.
"""
