"""Recognize a file that was given to the wrong command, to name its kind and the right command in one sentence.

Called only for files that a command cannot use: it explains a refusal, and never causes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from situate.objects.settings.section import Mistake
from situate.objects.settings.yaml_text import load_yaml_documents
from situate.runtime.configuration.file import KIND


@dataclass(frozen=True, slots=True)
class FileKind:
    """Kind of file, and the command for it."""

    name: str
    """Name with its article, such as `a scenario`."""
    usage: str
    """Sentence that names the command for such a file."""


CONFIGURATION: Final = FileKind(
    f"a Situate configuration (kind: {KIND})", "use it with `situate check -f FILE` and `situate run -f FILE`"
)
SCENARIO: Final = FileKind("a scenario (kind: Scenario)", "use it with `situate simulate FILE`")
KUBE_SCHEDULER: Final = FileKind(
    "a KubeSchedulerConfiguration",
    "name it in `scheduler.configuration` of a Situate configuration, or with `situate scheduler explain -f FILE`",
)
AGENT: Final = FileKind("an agent's configuration", "use it with `situate vm agent -f FILE`")
AUTOSCALE_SCHEDULER: Final = FileKind(
    "a configuration of neondatabase/autoscaling's scheduler",
    "name it in `vm.configuration` of a Situate configuration",
)
PRICES: Final = FileKind("a list of prices", "name it in `spot.prices.file` of a Situate configuration")
KUBECONFIG: Final = FileKind("a kubeconfig", "give it with `--kubeconfig FILE`, or as $KUBECONFIG")
TRACE: Final = FileKind(
    "a trace of virtual machines (JSON lines)", "give it a name that ends in .jsonl, and use `situate simulate FILE`"
)
RECORDING: Final = FileKind("a recording of a scheduler (JSON lines)", "use it with `situate scheduler replay FILE`")
KUSTOMIZATION: Final = FileKind("a kustomization", "print its objects with `kubectl kustomize FOLDER`")
OBJECTS: Final = FileKind(
    "Kubernetes objects", "use them with `kubectl apply -f FILE` or `situate scheduler what-if FILE`"
)
LISTING: Final = FileKind(
    "a listing of Kubernetes objects",
    "use it with `situate scheduler explain POD --objects FILE` or `kubectl apply -f FILE`",
)
_GROUPS: Final = (
    ("kubescheduler.config.k8s.io/", KUBE_SCHEDULER),
    ("kustomize.config.k8s.io/", KUSTOMIZATION),
)
_SITUATE: Final = "situate.dev/"


def wrong_kind_of_text(text: str, *wanted: FileKind) -> Mistake | None:
    """Return one mistake for a text of another kind than `wanted`; None if its kind is not recognized."""
    kind = _kind_of_lines(text)
    documents: Sequence[object] = ()
    if kind is None:
        documents = _parse_documents(text)
        kind = _kind_of_documents(documents)
    return _wrong_kind_mistake(kind, documents, wanted)


def wrong_kind_of_document(content: object, *wanted: FileKind) -> Mistake | None:
    """Return the same as `wrong_kind_of_text`, for a parsed text."""
    return _wrong_kind_mistake(_kind_of_document(content), (content,), wanted)


def _wrong_kind_mistake(
    kind: FileKind | None, documents: Sequence[object], wanted: Sequence[FileKind]
) -> Mistake | None:
    if kind is None or kind in wanted:
        return None
    found = f"{kind.name} ({_describe_documents(documents)})" if kind is OBJECTS else kind.name
    return Mistake("", found, " or ".join(each.name for each in wanted if each is not LISTING), kind.usage)


def _describe_documents(documents: Sequence[object]) -> str:
    """Describe documents that are mappings, such as `Deployment web and 2 more`."""
    first: Any = documents[0]
    metadata = first.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    more = f" and {len(documents) - 1} more" if len(documents) > 1 else ""
    return f"{first.get('kind', 'a List')} {name}".strip() + more


def _parse_documents(text: str) -> list[object]:
    """Parse a text; empty if it is neither JSON nor YAML."""
    with suppress(ValueError, RecursionError):
        return [msgspec.json.decode(text)]
    return [each.content for each in load_yaml_documents(text)[0]]


def _kind_of_lines(text: str) -> FileKind | None:
    """Recognize the kind by the first line, if that line alone is JSON."""
    with suppress(ValueError, RecursionError):
        first = msgspec.json.decode(text.lstrip("\ufeff").lstrip().partition("\n")[0])
        if isinstance(first, dict) and "situateRecording" in first:
            return RECORDING
        if isinstance(first, dict) and {"time", "event", "uid"} <= first.keys():
            return TRACE
    return None


def _kind_of_documents(documents: Sequence[object]) -> FileKind | None:
    kinds = {_kind_of_document(each) for each in documents}
    return OBJECTS if len(documents) > 1 and kinds <= {OBJECTS, LISTING} else kinds.pop() if len(kinds) == 1 else None


def _kind_of_document(content: object) -> FileKind | None:
    if not isinstance(content, Mapping):
        return None
    version, kind = content.get("apiVersion"), content.get("kind")
    if kind == KIND:
        return CONFIGURATION
    if kind == "Scenario" and str(version).startswith(_SITUATE):
        return SCENARIO
    if (version, kind) == ("v1", "Config"):
        return KUBECONFIG
    for group, found in _GROUPS:
        if str(version).startswith(group):
            return found
    if isinstance(version, str) and not version.startswith(_SITUATE):
        if isinstance(content.get("items"), list):
            return LISTING
        if isinstance(kind, str):
            return OBJECTS
    return _kind_by_keys(content)


def _kind_by_keys(content: Mapping[Any, Any]) -> FileKind | None:
    """Recognize a document without a `kind`: the kind must know most of its keys, and more than any other kind."""
    fits = {kind: len(keys & content.keys()) for kind, keys in _known_keys().items()}
    most = max(fits.values())
    found = [kind for kind, count in fits.items() if count == most]
    return found[0] if len(found) == 1 and 2 * most > len(content) else None


@cache
def _known_keys() -> Mapping[FileKind, frozenset[str]]:
    """Return the top-level keys of each kind of file that needs no `kind`."""
    # most files are of the right kind, so these imports wait for a wrong one
    from situate.cli.input.configuration import SECTIONS
    from situate.runtime.configuration.file import configuration_schema
    from situate.sim.spot.settings import SpotScenarioSettings
    from situate.sim.vpod.settings import ScenarioSettings
    from situate.spot.nodes.prices import PriceList
    from situate.vm.agent.model.settings import AgentSettings
    from situate.vm.config.neon_settings import NeonConfiguration

    structs: tuple[tuple[FileKind, tuple[Any, ...]], ...] = (
        (SCENARIO, (ScenarioSettings, SpotScenarioSettings)),
        (AGENT, (AgentSettings,)),
        (AUTOSCALE_SCHEDULER, (NeonConfiguration,)),
        (PRICES, (PriceList,)),
    )
    known = {
        kind: frozenset(field.encode_name for struct in each for field in msgspec.structs.fields(struct))
        for kind, each in structs
    }
    return {
        CONFIGURATION: frozenset(configuration_schema(SECTIONS)["properties"]),
        KUBECONFIG: frozenset(("clusters", "contexts", "users", "current-context", "preferences")),
        **known,
    }
