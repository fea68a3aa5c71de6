"""Output of commands: forms, streams, progress, completion and exit codes.

A command calls `output` with plain data, and `output` prints the form that `-o` names (`formats`).
`streams` writes to standard output and standard error. `failures` defines the exit codes and prints errors.
`options` holds the flags that several commands share, and `option_sets` lets a command take a set of them at once.
`timeouts` reads `--timeout`. `progress` shows long work on a terminal. `watch` repeats a status at each change.
`completion` serves the shell.
"""
