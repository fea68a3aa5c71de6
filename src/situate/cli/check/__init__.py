"""`situate check`: test a configuration against a cluster, and name the next step for each problem.

Read `check` first: it runs the checks of each product. `rights` asks the API server for each permission.
`sharding` and `vm` hold the checks of these products. `finding` is the result of one check.
"""
