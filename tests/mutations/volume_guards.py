"""The guards of pods with volumes and devices that tests must not let anybody remove (framework.md, section 10)."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_LIVES, _STORAGE = "tests/framework/test_engine_volumes.py", "tests/framework/volumes/test_storage.py"
_RULES, _RUNS = "tests/plugins/test_volume_binding.py", "tests/framework/test_choosing_volumes.py"

VOLUME_GUARDS = (
    Mutation(
        "volume-promised",
        "no two pods get the same volume (VolumeBinding, Reserve)",
        "framework/engine/engine.py",
        "                self.cache.reserve_storage(info.uid, reserved.storage)\n",
        "                pass\n",
        (_LIVES,),
    ),
    Mutation(
        "volume-released",
        "a volume of a pod that is not bound after all is free again (VolumeBinding, Unreserve)",
        "framework/engine/engine.py",
        "        self._release(info.uid, now, but)\n        if self.cache.forget",
        "        if self.cache.forget",
        (_LIVES,),
    ),
    Mutation(
        "volume-version",
        "what the API server shows goes before what was promised of an older version",
        "framework/volumes/storage.py",
        "        for promised in self.promises.volumes.get(name, ())[-1:]:\n"
        "            if stored is not None and _same_version(promised, stored):",
        "        for promised in self.promises.volumes.get(name, ())[-1:]:\n            if stored is not None:",
        (_STORAGE,),
    ),
    Mutation(
        "volume-unchanged",
        "a volume is given to a claim only if nobody has changed it meanwhile",
        "plugins/volume_binding.py",
        '        "metadata": {"resourceVersion": meta.resource_version},\n        "spec"',
        '        "metadata": {},\n        "spec"',
        (_LIVES,),
    ),
    Mutation(
        "volume-awaited",
        "a pod is bound only once its storage is ready",
        "plugins/volume_binding.py",
        "            AwaitVolumes(pod.key, pod.uid, node, tuple(given), tuple(wanted), self._timeout_s),\n",
        "",
        (_LIVES,),
    ),
    Mutation(
        "volume-shown",
        "storage is looked at as the API server shows it, not as it was before it was written",
        "plugins/volume_binding_progress.py",
        "    if given.before and volume.metadata.resource_version == given.before:",
        "    if False:",
        (_LIVES,),
    ),
    Mutation(
        "volume-places",
        "a pod goes where its volumes can be used",
        "plugins/volume_search.py",
        "            conflict |= ~nodes_with_access(volume, storage, nodes)\n",
        "            pass\n",
        (_RULES,),
    ),
    Mutation(
        "volume-twice",
        "two claims of a pod do not get the same volume",
        "plugins/volume_matching.py",
        " or (taken and _is_taken(volume, int(node), taken)):",
        ":",
        (_RULES,),
    ),
    Mutation(
        "volume-one-pod",
        "a claim for one pod is used by one pod (VolumeRestrictions)",
        "plugins/volume_restrictions.py",
        "            if READ_WRITE_ONCE_POD in claim.spec.access_modes:",
        "            if False:",
        (_LIVES,),
    ),
    Mutation(
        "volume-limits",
        "no node gets more volumes of a driver than it can take (NodeVolumeLimits)",
        "plugins/node_volume_limits.py",
        "                too_many |= _nodes_over_limit(take(limits, snapshot.chosen), driver, volumes, snapshot)\n",
        "                pass\n",
        (_LIVES,),
    ),
    Mutation(
        "volume-runs",
        "pods with different volumes are not placed as if they were equal",
        "framework/pod/pods.py",
        "(priority, owned, template, labels, spread, spec.volumes)\n",
        "(priority, owned, template, labels, spread)\n",
        (_RUNS,),
    ),
    Mutation(
        "devices",
        "a pod that claims devices is not placed without them (DynamicResources)",
        "plugins/dynamic_resources.py",
        "        if not claims:\n            return SKIPPED",
        "        if True:\n            return SKIPPED",
        (_LIVES,),
    ),
)
