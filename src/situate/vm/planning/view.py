"""What one planning looks at: the state at a time, the nodes as targets, and whom it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from situate.vm.amounts import Amounts
from situate.vm.claims import Move
from situate.vm.model import Pod
from situate.vm.planning.limits import no_place, under_way
from situate.vm.planning.movers import Asker, Mover, mover, stays
from situate.vm.planning.packing import fit_together, packed
from situate.vm.planning.targets import Fits, Targets
from situate.vm.rules import Rules
from situate.vm.state import State


@dataclass(frozen=True, slots=True, eq=False)
class View:
    state: State
    now: float
    rules: Rules
    fits: Fits
    targets: Targets
    asker: Asker | None

    @classmethod
    def of(cls, state: State, now: float, rules: Rules, fits: Fits, asker: Asker | None) -> View:
        return cls(state, now, rules, fits, Targets.of(state, rules), asker)

    @property
    def moves(self) -> tuple[Move, ...]:
        """Those that take a place."""
        return tuple(move for move in self.state.moves.values() if under_way(move))

    def waits_for_a_place(self, node: str) -> str:
        """Why no move may leave the node now (B26); empty: one may."""
        return no_place(self.moves, node, "", self.rules)

    def may_leave(self, node: str, need: Amounts, but: str = "") -> tuple[Mover, ...]:
        """Candidates on the node, with a target, by creation time and then UID."""
        pods = (pod for pod in self.state.nodes[node].pods.values() if pod.uid != but)
        found = (self.mover(pod, node, need) for pod in pods if not self.stays(pod))
        return tuple(sorted((each for each in found if each and each.targets), key=lambda each: each.order))

    def stays(self, pod: Pod) -> str:
        return stays(self.state, pod, self.now, self.rules, self.asker)

    def mover(self, pod: Pod, node: str, need: Amounts, amount: Amounts | None = None) -> Mover | None:
        """`amount`: what it takes where it goes, if that is not what it holds here."""
        held = pod.counted(pod.reserved) if amount is None else amount
        return mover(self.state, pod, node, self.targets, self.now, self.rules, self.fits, need, held)

    def fit_together(self, movers: Sequence[Mover]) -> bool:
        wishes = [each.targets for each in movers]
        return fit_together([each.freed.values for each in movers], wishes, self._room(wishes))

    def placed(self, movers: Sequence[Mover]) -> tuple[int, ...] | None:
        """The best target for each as far as the others find one as well (B13); None: they do not fit together."""
        wishes = [self.targets.best_first(each.targets, each.freed, self.rules) for each in movers]
        return packed([each.freed.values for each in movers], wishes, self._room(wishes))

    def _room(self, wishes: Sequence[Sequence[int]]) -> dict[int, list[int]]:
        least = self.targets.room
        return {node: least[:, node].tolist() for wished in wishes for node in wished}
