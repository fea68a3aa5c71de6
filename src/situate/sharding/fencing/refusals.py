"""Recognise a refusal of the fencing policies in an API server's response, and name the next step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from situate.sharding.fencing.admit import Refusal

_DENIED: Final = re.compile(r"ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']*')? denied request: ")
_TEXTS: Final[dict[str, Refusal]] = {
    **{str(each): each for each in Refusal},
    "an executor may change of the assignment only this: ": Refusal.NOT_RELEASED,
    "the assignment is the supervisor's: ": Refusal.NOT_SUPERVISOR,
    "whoever assigns or revokes writes the stored epoch plus one": Refusal.STEP,
    "the write is of an older term than the stored one": Refusal.OLD_TERM,
    "the write is of an older term than the leader's": Refusal.STALE_LEADER,
}
"""Refusals by the beginning of their text. The last five texts are those of policies that version 0.1.0 printed: such a
policy stays in a cluster until the manifests are applied again."""


@dataclass(frozen=True, slots=True)
class FenceRefusal:
    """One write that a fencing policy refused."""

    policy: str
    """Name of the ValidatingAdmissionPolicy."""
    refusal: Refusal

    @property
    def next_step(self) -> str:
        """The next step for an administrator of the cluster."""
        match self.refusal:
            case Refusal.STALE_LEADER:
                return (
                    f"{self.policy} compares with the Lease of another supervisor: apply the output of `situate "
                    "manifests sharding` for the present configuration, or run `kubectl delete "
                    f"validatingadmissionpolicy,validatingadmissionpolicybinding {self.policy}`"
                )
            case Refusal.NOT_SUPERVISOR:
                return (
                    f"{self.policy} names another ServiceAccount as the supervisor: apply the output of `situate "
                    "manifests sharding` for the namespace in which the supervisors run"
                )
            case Refusal.OLD_TERM:
                return "restart the leading supervisor: its next term begins above those on the objects"
            case _:
                return f"compare the rules of {self.policy} with the output of `situate manifests sharding`"

    def __str__(self) -> str:
        return f"ValidatingAdmissionPolicy {self.policy} refuses the write: {self.refusal}"


def fence_refusal(answer: str) -> FenceRefusal | None:
    """Return the refusal in an API server's response; None if no fencing policy refused the write."""
    denied = _DENIED.search(answer)
    if denied is None:
        return None
    said = answer[denied.end() :]
    # one text may begin with another text, so use the longest match
    found = max((text for text in _TEXTS if said.startswith(text)), key=len, default=None)
    return None if found is None else FenceRefusal(denied[1], _TEXTS[found])
