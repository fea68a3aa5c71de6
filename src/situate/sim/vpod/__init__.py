"""The vpod scheduler on a simulated cluster: what a day costs, moves and lacks, for several settings side by side."""
