"""KubeVirt's machines, and the migrations that move them (B49). Its versions from 1.0 on serve `kubevirt.io/v1`."""
