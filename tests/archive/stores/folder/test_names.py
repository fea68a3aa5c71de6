from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.archive.records.record import GroupKind
from situate.archive.stores.folder.names import (
    is_kind_folder,
    is_text_folder,
    kind_folder,
    name_folder,
    namespace_folder,
    record_file,
    text_of,
)

pytestmark = pytest.mark.rule("sharding:K16")

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(CHARACTERS, max_size=90) | st.text(st.sampled_from("aA%~_./-e2é"), max_size=253).filter(
    lambda text: len(text.encode()) <= 253
)
NAMES = TEXTS.filter(bool)


def safe(folder: str) -> bool:
    """Fits every file system, leads nowhere, and is not hidden."""
    return (
        folder.isascii() and 0 < len(folder) <= 255 and "/" not in folder and folder[0] != "." and folder.isprintable()
    )


@given(NAMES, NAMES)
def test_two_names_have_two_folders_whatever_the_case_of_letters(one: str, other: str) -> None:
    assert safe(name_folder(one))
    assert (name_folder(one).lower() == name_folder(other).lower()) is (one == other)
    assert (record_file(one).lower() == record_file(other).lower()) is (one == other)


@given(TEXTS, TEXTS)
def test_no_namespace_is_a_namespace_of_its_own(one: str, other: str) -> None:
    assert safe(namespace_folder(one))
    assert (namespace_folder(one) == namespace_folder(other)) is (one == other)


@given(TEXTS, NAMES, TEXTS, NAMES)
def test_two_kinds_have_two_folders(group: str, kind: str, other_group: str, other_kind: str) -> None:
    one, other = GroupKind(group, kind), GroupKind(other_group, other_kind)
    assert safe(kind_folder(one))
    assert is_kind_folder(kind_folder(one))
    assert (kind_folder(one) == kind_folder(other)) is (one == other)


@given(NAMES)
def test_a_folder_tells_its_name_unless_it_was_shortened(name: str) -> None:
    folder = name_folder(name)
    assert is_text_folder(folder)
    assert text_of(folder) == (None if "%~" in folder else name)
    assert len(folder) <= 255
    assert record_file(name).endswith(".json")


@pytest.mark.parametrize("foreign", ["lost+found", ".snapshot", "..", "Folder", "a b", "%", "%zz", "%ff", "%C3", ""])
def test_what_is_none_of_our_names_is_not_taken_for_one(foreign: str) -> None:
    assert text_of(foreign) is None
    assert not is_text_folder(foreign)
    assert not is_kind_folder(foreign)
