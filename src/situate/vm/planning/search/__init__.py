"""Search for the cheapest set of migrations that frees the missing capacity.

The functions take a `View` and the shortfall of a Pod, and return options or chains with costs.
Start with `view`, the state as one search sees it, and `options`, the ways that need one step.
`cheapest_cover` finds the cheapest set of VMs to migrate, and `packing` checks that their targets fit together.
`chains` adds the ways with two steps, in which another migration first frees the target.
"""
