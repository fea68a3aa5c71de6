"""What is built is what is pinned; that servers are killed and come back is shown in `test_server_outages`."""

from __future__ import annotations

from tests.archive.servers.programs import S3_SERVER, VERSITYGW


def test_the_version_agrees_with_the_module() -> None:
    assert f"github.com/versity/versitygw v{VERSITYGW}" in (S3_SERVER.folder / "go.mod").read_text()
