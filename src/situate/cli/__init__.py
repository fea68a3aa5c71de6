"""Command line of `situate`: the commands, and the composition root of every process."""
