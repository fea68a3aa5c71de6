"""`situate simulate`: the decisions of a product on a simulated cluster, for several settings side by side.

`vpod` plays a day of event sources, `spot` plays interruptions of spot nodes, and `vm` plays the load of VMs.
"""
