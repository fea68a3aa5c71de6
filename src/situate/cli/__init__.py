"""SHELL: the commands; the composition root of every process."""
