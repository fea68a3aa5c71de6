"""The vectorised scheduling framework: kube-scheduler's extension points, answered for all nodes at once.

Words and answers are kube-scheduler's (pkg/scheduler/framework). A plugin looks at columns over nodes, never at one
node, and everything here is a function of frozen values: time, randomness and events come in as arguments.
"""
