"""Random histories of a product: generated from a seed, performed, checked and shortened.

`steps` stores histories and defines the steps that all products share. `process_faults` performs the faults among them.
`watchdog` is the common part of the checks, and `run` runs one history. `play` is the command line of a product's
histories: it plays one, shortens one, or plays seed after seed. `soak` counts these and continues where the last run
ended.
"""
