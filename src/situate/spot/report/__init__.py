"""Reports for people: plans, explanations, costs and advice. Reports never change the cluster.

Input: the same cluster, memory and prices as a decision. Output: plain values that the command line prints.
Read `plan` first: it calls `decide` repeatedly on a simulated cluster and lists the moves.
`explain` gives the reasons for one workload or Pod. `wave_impact` computes the loss if all spot nodes end.
`cost_report` computes costs and savings. `target_advice` proposes an on-demand target from recorded interruptions.
`alternatives` compares spot with other ways to mix capacity.
"""
