"""Read the name of an archived object: its kind, then NAMESPACE/NAME, or its UID if several had the name."""

from __future__ import annotations

from situate.archive.records.record import ByName, ByUid, GroupKind
from situate.cli.sharding.archive.options import RecordName
from situate.cli.terminal.failures import WrongInput


def parse_kind(text: str) -> GroupKind:
    """Return the kind. Raises `WrongInput` for a kind without a group, which would match nothing."""
    kind, dot, group = text.partition(".")
    if not (kind and dot) or "/" in text:
        core = f"; for the core group of Kubernetes: {text}." if kind and not dot else ""
        raise WrongInput(f"kind: found {text!r}, allowed: KIND.GROUP, such as Report.batch.example.com{core}")
    return GroupKind(group, kind)


def parse_key(record: RecordName) -> ByName | ByUid:
    """Return the key. Raises `WrongInput` if neither name nor UID is given."""
    name, within = record.name, record.namespace
    place = None
    if name is not None:
        namespace, slash, rest = name.rpartition("/")
        if not rest or "/" in namespace or (slash and not namespace):
            raise WrongInput(f"name: found {name!r}, allowed: NAMESPACE/NAME, or NAME for a cluster-scoped object")
        if slash and within not in (None, namespace):
            raise WrongInput(f"{name}: -n {within} names another namespace; leave one of them out")
        place = namespace or within or "", rest
    if record.uid is not None:
        return ByUid(parse_kind(record.kind), record.uid, place)
    if place is None:
        raise WrongInput(
            "no object is named: give NAMESPACE/NAME or --uid; `situate sharding archive search` lists them"
        )
    return ByName(parse_kind(record.kind), *place)
