"""MinMetricScore: choose the executor with the lowest weighted sum of metrics.

`strategy` computes the score from `samples`. `slow_start` limits assignments to executors that report next to no load.
`settings` holds the options.
"""
