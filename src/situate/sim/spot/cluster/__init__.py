"""The simulated cluster: nodes that come and end, controllers, a scheduler, and the decisions of spot."""
