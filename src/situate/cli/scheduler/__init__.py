"""`situate scheduler`: why Pods go where they go, what if, and what another profile would do. Begin at `commands`."""
