"""`situate manifests` and `situate crds`: the objects to install, derived from the configuration.

Read `manifests` first: it selects the products and adds their rights to one Deployment.
Each other module builds the objects of one product or program: `spot`, `sharding`, `vm`, `vm_agent`, `vm_machines`
and `archive`. `pods` adapts their Deployments. `crds` prints CustomResourceDefinitions. The modules read no cluster and
write none.
"""
