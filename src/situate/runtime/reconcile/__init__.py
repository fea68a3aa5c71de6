"""Reconcile loops: keys in a `workqueue`, workers in `reconciler`, and the results of one pass in `outcomes`."""
