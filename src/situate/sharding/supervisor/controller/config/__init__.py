"""The settings of supervisors, from flags, the environment and the configuration file.

Input: command lines, environment variables and the `sharding:` section.
Output: `Scope` and `SupervisorConfig`, or an error that names every mistake.
Read `options` first: one table defines every option of a supervisor.
`flags` adds the options of supervisors and executors to argparse and typer.
`section` parses the list in the configuration file and refuses entries that share objects.
"""
