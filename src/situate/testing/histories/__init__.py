"""Random histories of a product: generated from a seed, played, checked and shortened.

`steps` defines the steps that all products share. `play` is the command line of a product's histories.
`soak` plays seed after seed, counts them, and continues where the last run ended.
"""
