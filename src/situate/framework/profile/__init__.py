"""Plugins of one scheduler name, grouped by extension point.

The folder takes a KubeSchedulerConfiguration and a plugin registry. The folder returns a `Profile` per scheduler name.
A wrong entry in the configuration becomes an error with its path.
Read `profile` first: it holds the plugins of each extension point in call order, with the weights of the scores.
Then read `profiles`, which merges the defaults, expands `multiPoint`, checks arguments and creates the plugins.
"""
