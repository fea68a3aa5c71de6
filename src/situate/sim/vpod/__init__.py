"""The vpod scheduler on a simulated cluster: cost, moves and shortage of a day, for several settings in comparison."""
