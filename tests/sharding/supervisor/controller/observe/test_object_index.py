"""What is counted over a listing is what a new count would give, whatever changes."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.assignment.archive_steps import completion_ranks
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.object_view import ObjectView
from situate.sharding.supervisor.controller.observe.object_index import ObjectIndex
from tests.sharding.builders import WALL

_CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.none() | st.tuples(st.integers(0, 1), st.sampled_from(["", "o", "p"]), st.none() | st.integers(0, 3)),
    ),
    max_size=20,
)
"""Of which object: it is gone, or which incarnation it is, whose, and when it was completed."""


@given(_CHANGES)
def test_ranks_are_those_of_the_objects_as_they_are(
    changes: list[tuple[int, tuple[int, str, int | None] | None]],
) -> None:
    listing, unranked = ObjectIndex(None, _nobody), ObjectIndex(None, _nobody, ranked=False)
    for number, change in changes:
        request, view = Request("shop", f"r{number}"), None
        if change is not None:
            life, owner, at = change
            completed = None if at is None else WALL + timedelta(seconds=at)
            view = ObjectView(uid=f"u{number}-{life}", resource_version="1", owner_uid=owner, completed_at=completed)
        for each in (listing, unranked):
            each.update(request, view, 0.0)
        want = completion_ranks(listing.views.values())
        assert {each.uid: listing.rank(each) for each in listing.views.values()} == {
            each.uid: want.get(each.uid) for each in listing.views.values()
        }
        assert not any(unranked.rank(each) for each in unranked.views.values()), "nobody asks"


def _nobody(_: str, __: int, ___: int) -> None:
    """Is told."""
