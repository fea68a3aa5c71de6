"""Fixtures shared by all tests: the real control plane, started once a session and only if a test asks for it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from tests.controlplane.build import Programs, build
from tests.controlplane.plane import ControlPlane, Options

PlaneFactory = Callable[[Options], ControlPlane]

_PLANES = {"control_plane", "working_control_plane", "start_control_plane", "control_plane_programs"}


# A deadline would make a property fail because other work keeps the machine busy; a failure prints how to replay it.
settings.register_profile("situate", deadline=None, print_blob=True)
settings.load_profile("situate")


def pytest_configure() -> None:
    # When a plain test comes before an async one, pytest-asyncio asks for "the current loop", and asyncio makes one
    # that nobody closes: a warning at the end of the run, which is an error here. Saying that there is none helps.
    asyncio.set_event_loop(None)


def pytest_itemcollected(item: pytest.Item) -> None:
    if _PLANES & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.realcluster)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the real control plane come last: where it has to be built first, the others run meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("realcluster") is not None)


@pytest.fixture(scope="session")
def control_plane_programs(pytestconfig: pytest.Config) -> Programs:
    """Everything built, which takes minutes on a machine that has never done so; the terminal shows how it goes."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", end="", flush=True)

    return build(say=say)


@pytest.fixture(scope="session")
def start_control_plane(
    control_plane_programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlaneFactory]:
    """Starts a control plane with the options given; it ends with the session."""
    with ExitStack() as planes:

        def start(options: Options) -> ControlPlane:
            folder = tmp_path_factory.mktemp("control-plane")
            return planes.enter_context(ControlPlane(folder, options, programs=control_plane_programs))

        yield start


@pytest.fixture(scope="session")
def control_plane(start_control_plane: PlaneFactory) -> ControlPlane:
    """etcd and kube-apiserver, shared by the session."""
    return start_control_plane(Options())


@pytest.fixture(scope="session")
def working_control_plane(start_control_plane: PlaneFactory) -> ControlPlane:
    """With kube-controller-manager and kwok, shared by the session: whoever breaks a part must put it right again."""
    return start_control_plane(Options(controllers=True, kwok=True))


@pytest.fixture
def control_plane_namespace(control_plane: ControlPlane) -> str:
    """A new namespace; nothing deletes it, the control plane ends with the session."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name
