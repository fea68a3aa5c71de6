from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from situate.kube.transport.lines import LineSplitter

LINES = st.lists(st.binary(max_size=6).map(lambda each: each.replace(b"\n", b"")), max_size=8)


@given(LINES, st.binary(max_size=3).filter(lambda each: b"\n" not in each), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], unfinished: bytes, data: st.DataObject) -> None:
    body = b"".join(line + b"\n" for line in lines) + unfinished
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    at = data.draw(st.integers(0, len(pieces)))
    reader = LineSplitter()
    found = [*reader.complete_lines(pieces[:at]), *reader.complete_lines(pieces[at:])]
    assert [line.removesuffix(b"\n") for line in found] == [line for line in lines if line]


def test_an_event_in_a_piece_of_its_own_is_not_copied() -> None:
    piece = b'{"type":"ADDED"}\n'
    (line,) = LineSplitter().complete_lines([piece])
    assert line is piece
