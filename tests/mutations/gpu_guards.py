"""The guards around units that pods are given, such as GPUs, that tests must not let anybody remove (framework.md)."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_HOLDINGS = "tests/framework/snapshot/test_device_allocations.py"
_GPU_SHARE = "tests/plugins/gpu_share/test_gpu_share.py"
_AGREEMENT = "tests/plugins/gpu_share/test_agreement.py"

GPU_GUARDS = (
    Mutation(
        "units-assumed",
        "a placed pod counts with its units at once (section 4, step 9)",
        "framework/engine/engine.py",
        "        info = self._allot_units(profile, waiting.info, node) if profile.allot else waiting.info\n",
        "        info = waiting.info\n",
        (_HOLDINGS,),
    ),
    Mutation(
        "units-told",
        "a pod is told its units before it is bound",
        "framework/engine/engine.py",
        "            info = known.info  # includes the allocated units\n",
        "            pass\n",
        (_HOLDINGS,),
    ),
    Mutation(
        "units-one-by-one",
        "pods that need units are not placed at once with the equal ones behind them",
        "framework/engine/batch_scheduling.py",
        " for plugin in (*profile.allot, *profile.reserve))",
        " for plugin in profile.reserve)",
        (_HOLDINGS,),
    ),
    Mutation(
        "units-confirmed",
        "a pod that says it has other units than we gave it counts with those",
        "framework/snapshot/cache.py",
        "            and all(given.get(key) == known.get(key) for key in self._allotments)\n",
        "",
        (_HOLDINGS,),
    ),
    Mutation(
        "units-promised",
        "a pod that is promised a node counts with the units that it will get there (section 4, step 5)",
        "framework/cycle/cycle.py",
        "        alone = alone.assume(allot_units(profile, other, alone), 0)\n",
        "        alone = alone.assume(other, 0)\n",
        (_HOLDINGS,),
    ),
    Mutation(
        "units-asked-for",
        "pods that ask for other units are no equal pods",
        "framework/pod/pods.py",
        "            parts += self._distinguishing_annotations(pod)\n",
        "            pass\n",
        (_HOLDINGS,),
    ),
    Mutation(
        "device-room",
        "a share of a GPU has to fit on one device",
        "plugins/gpu_share/gpu_share.py",
        "(idle_amounts(snapshot) >= request.milli).sum(axis=0)",
        "(idle_amounts(snapshot).sum(axis=0) >= request.milli) * request.count",
        (_GPU_SHARE,),
    ),
    Mutation(
        "device-index",
        "what a pod says about its devices is read with care",
        "plugins/gpu_share/requests.py",
        " or not all(number.isascii() and number.isdigit() and len(number) < 4 for number in numbers):",
        ":",
        (_GPU_SHARE,),
    ),
    Mutation(
        "descent-before",
        "fragmentation before and after are compared (FGD)",
        "plugins/gpu_share/fgd_score.py",
        "        return _sigmoid(measure, best - usable, request.total)\n",
        "        return _sigmoid(measure, best, request.total)\n",
        (_AGREEMENT,),
    ),
)
