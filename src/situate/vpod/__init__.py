"""Places virtual replicas of event sources onto the pods of a StatefulSet, and sizes that StatefulSet."""
