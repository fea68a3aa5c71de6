"""Fixtures shared by all tests: the real control plane, started once a session and only if a test asks for it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests import bytecode, descendants
from tests.archive.servers.programs import S3_SERVER
from tests.controlplane.build import Programs, build, locate
from tests.controlplane.components import CONTROL_PLANE
from tests.controlplane.errors import ControlPlaneError, NotFetched
from tests.controlplane.groups import Groups, group_of
from tests.controlplane.plane import ControlPlane, Options

PlaneFactory = Callable[[Options], ControlPlane]

_BUILT = pytest.StashKey[bool]()
_GROUPS = pytest.StashKey[Groups]()
_FAILED = pytest.StashKey[bool]()
_BUILDS = (CONTROL_PLANE, S3_SERVER)
_PLANES = {"control_plane", "start_control_plane", "control_plane_programs", "s3_program"}
WAITS = "waits"
"""The group of the tests with this mark."""
_STORES = {"s3", "postgresql", "mongodb"}
"""Groups of tests that need a server of an archive's store."""


# A deadline would make a property fail because other work keeps the machine busy. The same examples every time: what
# random ones find belongs into a soak, not into the way of somebody else's change.
settings.register_profile("situate", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("soak", settings.get_profile("situate"), max_examples=10_000)
settings.load_profile("situate")
# Nor may they depend on what else was imported: hypothesis draws from the constants of every module of ours that it
# finds loaded, so other tests before it in the same process, or an edit anywhere, would give a property other examples.
providers._get_local_constants = Constants


def pytest_configure(config: pytest.Config) -> None:
    # When a plain test comes before an async one, pytest-asyncio asks for "the current loop", and asyncio makes one
    # that nobody closes: a warning at the end of the run, which is an error here. Saying that there is none helps.
    asyncio.set_event_loop(None)
    # A shell that starts a command in the background has it ignore SIGINT, and programs inherit that. With a handler
    # here, the programs that tests start and interrupt listen to it, however this run was started.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    descendants.adopt_orphans()
    gc.disable()  # until the tests are collected
    # What is written in Go collects its garbage a third as often: a fifth less work for an API server, for 80 MB more.
    os.environ.setdefault("GOGC", "300")
    # The workers must agree on the order of the tests, and a build may end while they collect: one process looks.
    told = getattr(config, "workerinput", None)
    config.stash[_BUILT] = _is_built() if told is None else told["control_plane_is_built"]
    if told is None and config.getoption("numprocesses", None):
        bytecode.make(_folders(config))


def _folders(config: pytest.Config) -> Iterator[Path]:
    """What the workers will import from; single files they do themselves."""
    yield config.rootpath / "src"
    yield from (Path(arg) for arg in config.args if "::" not in arg and Path(arg).is_dir())


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_GROUPS] = Groups(session.items)
    # The collected tests stay: no search for garbage walks them, and what a test makes mostly goes by itself.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    groups = item.config.stash[_GROUPS]
    groups.begin(item)
    result = yield
    groups.finish(item, nextitem)
    if item.stash.get(_FAILED, False):
        descendants.end_orphans()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


def pytest_sessionfinish() -> None:
    descendants.end_orphans()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command that was called in this process has set logging up for itself, on a stream that ends with its test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist's: what each worker is told."""
    node.workerinput["control_plane_is_built"] = node.config.stash[_BUILT]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are processors: one worker has the tests that wait, the others keep a processor busy each.

    Two busy ones on each processor would take each other's caches, and a tenth to a third more processor time.
    """
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `make test`: xdist's for groups, with the cases of one function in one unit.

    After each unit xdist counts all that a worker has ever had. Twelve thousand units take it a fiftieth of the time.
    Functions of `make verify` have cases that take minutes.
    """
    if config.getoption("dist") != "loadgroup" or config.getoption("markexpr") != "not verify":
        return None
    from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

    class ByFunction(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            return scope.partition("[")[0] if scope == nodeid else scope

    return ByFunction(config, log)


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make verify` runs because it needs a real control plane or a store; other tests mark themselves."""
    used = set(getattr(item, "fixturenames", ()))
    if _PLANES & used:
        item.add_marker(pytest.mark.realcluster)
    if "control_plane" in used and item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group("control-plane"))  # started once, in one worker
    if item.get_closest_marker("realcluster") or group_of(item) in _STORES:
        item.add_marker(pytest.mark.verify)
    if item.get_closest_marker("waits") and not group_of(item):
        item.add_marker(pytest.mark.xdist_group(WAITS))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no worker has much left to do when the others are done.

    Tests on the real control plane come last where it has to be built first: the others run meanwhile.
    """
    if getattr(config.option, "loadgroup", False):
        _check_groups(items)
    if config.stash[_BUILT] or not any(item.get_closest_marker("realcluster") for item in items):
        items[:] = _mixed(items)
        return

    def turn(item: pytest.Item) -> tuple[bool, bool, bool]:
        real, grouped, slow = (item.get_closest_marker(name) for name in ("realcluster", "xdist_group", "slow"))
        return real is not None, grouped is None, slow is None

    items.sort(key=turn)


def _mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Groups mostly wait for their servers, and what is slow beside them keeps a processor busy: by turns, so that the
    workers do some of both at any time. Of both, what has the most cases comes first; whatever is quick comes last.

    The tests marked `waits` come first of all: they are one group, and keep one worker busy for minutes."""
    groups: dict[str, list[pytest.Item]] = {}
    busy: list[list[pytest.Item]] = []
    quick: list[pytest.Item] = []
    for item in items:
        if name := group_of(item) or (item.get_closest_marker("realcluster") and item.nodeid):
            groups.setdefault(name, []).append(item)
        elif item.get_closest_marker("slow"):
            busy.append([item])
        else:
            quick.append(item)
    cases = Counter(item.nodeid.partition("[")[0] for item in items)
    busy.sort(key=lambda unit: cases[unit[0].nodeid.partition("[")[0]], reverse=True)
    turns = [[groups.pop(WAITS, [])], *zip_longest(busy, sorted(groups.values(), key=len, reverse=True), fillvalue=[])]
    return [*(item for turn in turns for unit in turn for item in unit), *quick]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have recorded as their `table` is shown at the end, whichever process ran them."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "table" and getattr(report, "when", "") == "call":
                    terminalreporter.write_line(str(value))


def _check_groups(items: list[pytest.Item]) -> None:
    """xdist writes groups into the ids of tests; a pytest that does not let it would tear them apart without a word."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and "@" not in item.nodeid:
            raise pytest.UsageError(
                f"xdist cannot keep {item.nodeid} with its group: another version of pytest is needed"
            )


def _is_built() -> bool:
    try:
        return not any(locate(module=module).missing(module.names) for module in _BUILDS)
    except ControlPlaneError:
        return False


@pytest.fixture(scope="session")
def control_plane_programs(pytestconfig: pytest.Config) -> Programs:
    """Everything built, which takes minutes on a machine that has never done so; the terminal shows how it goes."""
    return build(say=_on_the_terminal(pytestconfig))


@pytest.fixture(scope="session")
def s3_program(pytestconfig: pytest.Config) -> Path:
    """The S3 server of the archive's tests, built if it has not been; a machine without Go modules does without."""
    try:
        return build(say=_on_the_terminal(pytestconfig), module=S3_SERVER).path("versitygw")
    except NotFetched as error:
        pytest.skip(str(error))


def _on_the_terminal(config: pytest.Config) -> Callable[[str], None]:
    capture = config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", end="", flush=True)

    return say


@pytest.fixture(scope="session")
def start_control_plane(
    control_plane_programs: Programs, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[PlaneFactory]:
    """Starts a control plane with the options given; it ends with the group of the test that asked, or the session."""
    with ExitStack() as planes:

        def start(options: Options) -> ControlPlane:
            folder = tmp_path_factory.mktemp("control-plane")
            plane = planes.enter_context(ControlPlane(folder, options, programs=control_plane_programs))
            pytestconfig.stash[_GROUPS].afterwards(plane.stop)
            return plane

        yield start


@pytest.fixture(scope="session")
def control_plane(control_plane_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, shared by the groups of the session that one process runs."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), programs=control_plane_programs) as plane:
        yield plane


@pytest.fixture
def control_plane_namespace(control_plane: ControlPlane) -> str:
    """A new namespace; nothing deletes it, the control plane ends with the session."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name
