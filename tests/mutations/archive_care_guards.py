"""The safety guards of buckets and of MongoDB, and of what prunes, copies, restores, reads and serves archives."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_BUCKET, _DOCUMENTS = "tests/archive/stores/s3/test_archiver.py", "tests/archive/stores/mongodb/test_documents.py"
_RETENTION, _MIGRATING = "tests/archive/operations/test_retention.py", "tests/archive/operations/test_migration.py"
_RESTORING, _READING = "tests/archive/records/test_restored_object.py", "tests/archive/operations/test_object_reader.py"
_SERVER = "tests/sharding/server/test_request_handler.py"

ARCHIVE_CARE_GUARDS = (
    Mutation(
        "archive-url-under-a-wrong-key",
        "a message about a value shows no password of a URL in it",
        "objects/settings/section.py",
        '    text = _SECRET.sub(r"\\1\\2…", text[:_MAX_SCANNED])\n',
        "",
        ("tests/objects/settings/test_section.py::test_of_a_url_under_a_wrong_key_the_password_is_not_shown",),
    ),
    Mutation(
        "archive-s3-same-uid",
        "a UID that comes under another name is still one record in a bucket (S8)",
        "archive/stores/s3/archiver.py",
        "                    await self._objects.delete((former,))\n",
        "                    pass\n",
        (f"{_BUCKET}::test_a_uid_under_another_name_is_still_one_record",),
    ),
    Mutation(
        "archive-s3-conditions",
        "a server that ignores the conditions of puts is refused (S8)",
        "archive/stores/s3/archiver.py",
        '        if await self._objects.replace(probe, b"3", \'"other"\') is PutResult.DONE:',
        "        if False:",
        (f"{_BUCKET}::test_a_server_without_conditional_puts_is_refused",),
    ),
    Mutation(
        "archive-s3-copies",
        "a copy by hand under another key is no second record (S8)",
        "archive/stores/s3/archiver.py",
        "        if record_key(record.subject) != key:",
        "        if False:",
        (f"{_BUCKET}::test_a_copy_by_hand_is_reported_and_is_no_second_record",),
    ),
    Mutation(
        "archive-mongodb-newer",
        "MongoDB itself compares versions when a record is put (S8)",
        "archive/stores/mongodb/documents.py",
        '{"version": {"$lte": version}}',
        '{"version": {"$gte": 0}}',
        (_DOCUMENTS,),
    ),
    Mutation(
        "archive-mongodb-literal",
        "text of a query is no pattern (X12)",
        "archive/stores/mongodb/documents.py",
        "form.format(re.escape(text))",
        "form.format(text)",
        (_DOCUMENTS,),
    ),
    Mutation(
        "archive-retention-audit",
        "nothing is deleted by age that the audit does not know",
        "archive/operations/retention.py",
        "            await audit(Deletion(",
        "            await archiver.delete(record.subject.key)\n            await audit(Deletion(",
        (_RETENTION,),
    ),
    Mutation(
        "archive-retention-writes",
        "an archive that cannot be written to loses nothing by age",
        "archive/operations/retention.py",
        "    await archiver.check()\n",
        "",
        (_RETENTION,),
    ),
    Mutation(
        "archive-retention-again",
        "a record that was put anew stays",
        "archive/operations/retention.py",
        " or not await _is_unchanged(archiver, record):",
        ":",
        (_RETENTION,),
    ),
    Mutation(
        "archive-migration-verified",
        "a copy counts when it was read back",
        "archive/operations/migration.py",
        "    if (stored := await target.get(key)) != record:",
        "    if stored is not None and stored != record:",
        (f"{_MIGRATING}::test_a_record_that_does_not_go_is_named_and_the_others_go",),
    ),
    Mutation(
        "archive-restored-owners",
        "a restored object has no owner that is gone",
        "archive/records/restored_object.py",
        "    gone = {owner.uid for owner in left_out}",
        "    gone: set[str] = set()",
        (_RESTORING,),
    ),
    Mutation(
        "archive-reading-once",
        "a list through the archive holds each UID once, and the live one wins",
        "archive/operations/object_reader.py",
        "record for record in taken if record.subject.uid not in live",
        "record for record in taken",
        (_READING,),
    ),
    Mutation(
        "archive-reading-pages",
        "and so over several pages",
        "archive/operations/object_reader.py",
        "            if content is None or _uid(content) != record.subject.uid\n",
        "",
        (_READING,),
    ),
    Mutation(
        "archive-server-token",
        "who is not known to the API server is told nothing of what is archived",
        "runtime/serving/access.py",
        "        if not status.authenticated or not status.user.username:",
        "        if False:",
        (_SERVER,),
    ),
    Mutation(
        "archive-server-allowed",
        "who may not read the resource reads nothing of it in the archive either",
        "runtime/serving/access.py",
        "        if not status.allowed:",
        "        if False:",
        (_SERVER,),
    ),
    Mutation(
        "archive-server-paths",
        "a path that leads elsewhere is none",
        "sharding/server/request.py",
        '    if any(step in (".", "..") or "%" in step for step in steps):',
        "    if False:",
        (_SERVER,),
    ),
    Mutation(
        "archive-restored-held",
        "nobody works on what is restored before its status says that it was done (S6)",
        "sharding/supervisor/controller/archive/restore.py",
        "    content = _add_restoring_selector(new.content) if held else new.content",
        "    content = new.content",
        ("tests/cli/sharding/test_archive.py",),
    ),
)
