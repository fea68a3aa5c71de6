"""The safety guards of the archive: whole records, one for each UID, and nothing outside of its folder."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_RECORD, _QUERY = "tests/archive/records/test_record.py", "tests/archive/records/test_query.py"
_FILESYSTEM, _PAGE, _STORES = (
    "tests/archive/stores/folder/test_archiver.py",
    "tests/archive/test_page.py",
    "tests/archive/test_stores.py",
)

ARCHIVE_GUARDS = (
    Mutation(
        "archive-digest",
        "an object that was edited in the archive is found by its digest (S7)",
        "archive/records/record.py",
        '    if wire.get("digest") != digest(raw):',
        "    if False:",
        (_RECORD,),
    ),
    Mutation(
        "archive-subject",
        "a record says of its object what the object says (S7)",
        "archive/records/record.py",
        "        if wire.get(name) != value:\n            raise BadRecord(\n",
        "        if False:\n            raise BadRecord(\n",
        (_RECORD,),
    ),
    Mutation(
        "archive-newer",
        "a put never takes the place of a newer version (S8)",
        "archive/stores/stored_bytes.py",
        "    if not record.replaces(present):",
        "    if False:",
        (f"{_PAGE}::test_a_newer_version_replaces_and_an_older_never_does",),
    ),
    Mutation(
        "archive-newer-sql",
        "nor does it in a database, where the statement itself compares (S8)",
        "archive/stores/sql/archiver.py",
        "        where=sa.or_(mine.is_(None), theirs.is_(None), mine >= theirs),\n",
        "        where=sa.or_(mine.is_(None), theirs.is_(None), mine >= 0),\n",
        (f"{_STORES}::test_a_newer_version_replaces_and_an_older_never_does[sqlite]",),
    ),
    Mutation(
        "archive-file-synced",
        "a file is on the disk before it is seen (B9)",
        "archive/stores/folder/files.py",
        "                _write(handle, encoded)\n                os.fsync(handle)\n",
        "                _write(handle, encoded)\n",
        (_FILESYSTEM,),
    ),
    Mutation(
        "archive-folders-synced",
        "a put returns when its folders are on the disk, too (B9)",
        "archive/stores/folder/files.py",
        "            for folder in reversed(folders):",
        "            for folder in folders[:0]:",
        (_FILESYSTEM,),
    ),
    Mutation(
        "archive-hidden",
        "a file that is being written is hidden from everybody (B9)",
        "archive/stores/folder/files.py",
        '_PARTIAL: Final = ".partial"',
        '_PARTIAL: Final = "partial_"',
        (_FILESYSTEM,),
    ),
    Mutation(
        "archive-writers-lock",
        "two writers of one name take turns (S8)",
        "archive/stores/folder/files.py",
        "            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)\n            break",
        "            break",
        (_FILESYSTEM,),
    ),
    Mutation(
        "archive-links",
        "no link leads out of the archive's folder (issue 6, bad input)",
        "archive/stores/folder/tree.py",
        "FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
        (_FILESYSTEM,),
    ),
    Mutation(
        "archive-names",
        "no name leads to a parent or hides its file (issue 6, bad input)",
        "archive/stores/folder/names.py",
        '        chr(byte) if byte in plain and not (byte == ord(".") and place == 0) else f"%{byte:02X}"',
        '        chr(byte) if byte in plain or (place < 0) else f"%{byte:02X}"',
        ("tests/archive/stores/folder/test_names.py",),
    ),
    Mutation(
        "archive-copies",
        "an object that was made from a copy of an archived one was never archived (S9)",
        "archive/records/equality.py",
        'SERVER_SET: Final = (\n    "resourceVersion",',
        'SERVER_SET: Final = (\n    "uid",\n    "resourceVersion",',
        ("tests/archive/records/test_equality.py",),
    ),
    Mutation(
        "archive-pages",
        "no record comes on two pages (X12)",
        "archive/records/query.py",
        "position_of(record).order > after)",
        "position_of(record).order >= after)",
        (_QUERY,),
    ),
)
