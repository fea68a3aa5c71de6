"""situate's engine beside the real kube-scheduler: the same cluster, the same pod, the same answer.

`play` takes a seed through a cluster's life on both sides, `theirs` and `ours` are the two sides, `clusters` and `pods`
draw what they are asked about, `extenders` are asked by both, `comparing` says where they differ.
`python -m tests.e2e.differential` plays seeds for as long as one likes, and a case that differed once more. What is
known to differ stands in docs/compare/kube-scheduler.md.
"""
