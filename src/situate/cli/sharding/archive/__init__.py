"""Implement `situate sharding archive`: find, restore, copy, check and serve archived objects. Begin at `commands`."""
