"""Input of commands: configuration files, dumps of objects and names on the command line.

Read `configuration` first: it loads the file of `-f` and returns the settings of each product.
`dumps` reads objects from files and folders (`--objects`), and `file_kinds` refuses a file of another kind.
`object_names` reads NAMESPACE/NAME. `cluster_names` completes names from the cluster. `products` lists the products.
`agent_file` reads the file of the vm agent.
"""
