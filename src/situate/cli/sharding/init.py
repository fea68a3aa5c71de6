"""Implement `situate sharding init`: write a small operator to start from, from the templates in `project`."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

import situate
from situate.cli.terminal.failures import WrongInput, report_failures
from situate.cli.terminal.output import yaml_text
from situate.cli.terminal.streams import print_line
from situate.objects.resources import unstructured
from situate.objects.settings.section import format_value
from situate.sharding.fencing.admission_policy import LeaderLease, ServiceAccounts, fencing_policies
from situate.sharding.fencing.admit import Fence

_SUFFIX: Final = ".template"
_PACKAGE: Final = "package"
"""Folder of the templates that is renamed to the module's name."""
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,49}")
_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_LONGEST_GROUP: Final = 150
"""Length limit. Group and plural together form the name of a definition, which has at most 253 characters."""
_PROTECTED: Final = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")
_RESERVED_NAMES: Final = frozenset({*sys.stdlib_module_names, *keyword.kwlist, "situate", "tests", "kopf", "pytest"})


def create(name: str, group: str, kind: str, folder: Path, *, dry_run: bool) -> None:
    """Write the operator's folder into `folder`."""
    with report_failures():
        words = template_words(name, group, kind)
        target = folder / name
        if dry_run:
            if target.exists():
                raise WrongInput(_exists_message(target))
            for path in dict(_render_templates(words)):
                print_line(f"{target / path} would be written")
            return
        written = write_files(target, words)
        print_line(f"wrote {written} files to {target}")
        print_line(f"next: cd {target} && python -m pytest; then edit {words['module']}/reconciler.py")


def template_words(name: str, group: str, kind: str) -> dict[str, str]:
    """Return the value of each word in the templates. Raises `WrongInput` with every mistake."""
    if mistakes := [*_mistakes(name, group, kind)]:
        raise WrongInput("\n".join(mistakes))
    kind = kind or "".join(part.capitalize() for part in _singular(name).split("-"))
    singular = kind.lower()
    return {
        "name": name,
        "module": name.replace("-", "_"),
        "group": group,
        "kind": kind,
        "singular": singular,
        "plural": _plural(singular),
        "version": situate.__version__,
    }


def write_files(target: Path, words: Mapping[str, str]) -> int:
    """Write the files and return their number. Overwrites nothing: raises `WrongInput` if the folder exists."""
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        raise WrongInput(_exists_message(target)) from None
    except OSError as problem:
        raise WrongInput(f"{target} cannot be created: {problem.strerror}") from None
    texts = dict(_render_templates(words))
    for path, text in texts.items():
        try:
            (target / path).parent.mkdir(exist_ok=True)
            (target / path).write_text(text, encoding="utf-8")
        except OSError as problem:
            raise WrongInput(f"{target / path} cannot be written: {problem.strerror}; remove {target}") from None
    return len(texts)


def _exists_message(target: Path) -> str:
    return f"{target} already exists, and init overwrites nothing; name another one"


def fence_objects(words: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the policies with which the API server refuses outdated writers, and the Lease that they check."""
    namespace = words["name"]
    resource = unstructured(words["group"], "v1", words["kind"], words["plural"])
    lease = LeaderLease(namespace, f"{resource.group_resource}.default.supervisor")
    accounts = ServiceAccounts((f"{namespace}:supervisor",), (f"{namespace}:executor",))
    metadata = {"name": lease.name, "namespace": lease.namespace}
    made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
    return [made, *fencing_policies(f"situate-fencing.{resource.group_resource}", resource, accounts, Fence(), lease)]


def _render_templates(words: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for path, template in _templates(files("situate.cli.sharding") / "project", Path()):
        text = template.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(f"%%{word}%%", value)
        yield Path(*(words["module"] if part == _PACKAGE else part for part in path.parts)), text
    yield Path("fence.yaml"), "---\n".join(map(yaml_text, fence_objects(words)))


def _templates(folder: Traversable, at: Path) -> Iterator[tuple[Path, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda found: found.name):
        if each.is_dir():
            yield from _templates(each, at / each.name)
        elif each.name.endswith(_SUFFIX):
            yield at / each.name.removesuffix(_SUFFIX), each


def _mistakes(name: str, group: str, kind: str) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield (
            f"NAME is {format_value(name)}, allowed: at most 40 of a to z, 0 to 9 and '-', first a letter, last not '-'"
        )
    elif name.replace("-", "_") in _RESERVED_NAMES:
        yield f"NAME is {format_value(name)}, which is the name of a module of Python or situate; choose another name"
    elif name in ("default",) or name.startswith("kube-"):
        yield f"NAME is {format_value(name)}, which is a namespace of Kubernetes; choose another name"
    if not _GROUP.fullmatch(group) or len(group) > _LONGEST_GROUP:
        yield f"--group is {format_value(group)}, allowed: a DNS name with a dot in it, such as batch.example.com"
    elif _PROTECTED.fullmatch(group):
        yield f"--group is {format_value(group)}, which is reserved for Kubernetes; allowed: a domain of your own"
    if kind and not _KIND.fullmatch(kind):
        yield f"--kind is {format_value(kind)}, allowed: at most 50 letters and digits, first a capital, such as Report"


def _singular(name: str) -> str:
    """Return the singular for `_plural`, if the ending shows a plural. `--kind` is for other cases."""
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    if name.endswith(("sses", "xes", "shes", "tches", "rches", "nches")):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith(("ss", "us", "is")) and len(name) > 2 else name


def _plural(singular: str) -> str:
    if singular.endswith("y") and singular[-2:-1] not in "aeiou":
        return f"{singular[:-1]}ies"
    return f"{singular}es" if singular.endswith(("s", "x", "z", "ch", "sh")) else f"{singular}s"
