"""Error values for unusable fields of objects, and a reader for plain data that finds them.

Everyone who may patch a Pod can write its annotations. So the result for any content is a value or an `ParseError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

import msgspec

from situate.framework.pod.resources import LARGEST_AMOUNT
from situate.objects.settings.section import format_value, spelling_hint
from situate.objects.values.quantity import BadQuantity, Quantity, decode_quantity

T = TypeVar("T")
_QUANTITY: Final = 'a Kubernetes quantity such as "250m" or "1Gi"'
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class ParseError:
    """One error in one object; `str()` is the sentence for its author."""

    about: str
    """The object: `pod default/web`."""
    field: str
    found: str
    """The value, shortened; empty if absent."""
    allowed: str
    step: str = ""
    """Next step, if it adds to `allowed`."""

    def __str__(self) -> str:
        found = f"found {self.found}" if self.found else "missing"
        step = f"; {self.step}" if self.step else ""
        where = f"{self.about}: {self.field}" if self.field else self.about
        return f"{where}: {found}, allowed: {self.allowed}{step}"


@dataclass(frozen=True, slots=True)
class ParseResult(Generic[T]):
    """Result of reading an object."""

    value: T | None
    """None: no usable value. The first of `errors` gives the reason."""
    errors: tuple[ParseError, ...] = ()
    """With a value: the parts that were left out."""


class Place(msgspec.Struct, frozen=True):
    """Location of a text or a value."""

    about: str
    field: str

    @classmethod
    def annotation(cls, about: str, name: str) -> Place:
        return cls(about, f'metadata.annotations["{name}"]')

    def child(self, key: str) -> Place:
        return Place(self.about, f"{self.field}.{key}" if self.field else key)

    def locate_error(self, inner: ParseError) -> ParseError:
        """Return an error of a text that was read without its location, with this location added."""
        between = "." if self.field and inner.field and not inner.field.startswith("[") else ""
        return replace(inner, about=self.about, field=f"{self.field}{between}{inner.field}")

    def parse_error(self, value: object, allowed: str, step: str = "") -> ParseError:
        return ParseError(self.about, self.field, "" if value is _ABSENT else format_value(value), allowed, step)


NO_PLACE: Final = Place("", "")


def replace_lone_surrogates(value: object) -> object:
    """Return JSON with U+FFFD for each half of a surrogate pair, `"\\ud800"`.

    Such text can be received, but not encoded.
    """
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [replace_lone_surrogates(each) for each in value]
        case dict():
            return {replace_lone_surrogates(key): replace_lone_surrogates(each) for key, each in value.items()}
    return value


class ParseFailure(Exception):
    """Carries an `ParseError` to the public function that returns it. No public function raises it further."""

    def __init__(self, unreadable: ParseError) -> None:
        super().__init__(str(unreadable))
        self.error = unreadable


class Part(msgspec.Struct, frozen=True):
    """A value of plain data and its location. Every method raises `ParseFailure` for absent or wrong data.

    A struct, like `Place`, for speed: each field that is read creates one of both.
    """

    place: Place
    value: object

    @classmethod
    def parse_json(cls, text: str, place: Place) -> Part:
        """Parse JSON text."""
        try:
            return cls(place, msgspec.json.decode(text))
        except (msgspec.DecodeError, ValueError, RecursionError) as problem:
            said = "the JSON is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
            raise ParseFailure(place.parse_error(text, "JSON", said)) from problem

    @property
    def is_present(self) -> bool:
        """Whether it is neither absent nor null."""
        return self.value is not _ABSENT and self.value is not None

    def __getitem__(self, key: str) -> Part:
        """Return a field, possibly absent. Null has only absent fields, as in Kubernetes."""
        members = self.mapping() if self.is_present else {}
        return Part(self.place.child(key), members.get(key, _ABSENT))

    def mapping(self) -> Mapping[str, object]:
        if not isinstance(self.value, Mapping):
            raise self.failure("a mapping")
        return self.value

    def check_known_keys(self, *known: str) -> None:
        """Check that the mapping has no other keys."""
        for key, value in self.mapping().items():
            if key not in known:
                hint = spelling_hint(key, known)
                at = self.place.child(key)
                raise ParseFailure(at.parse_error(value, f"only the keys {', '.join(known)}", hint))

    def items(self) -> tuple[Part, ...]:
        if not isinstance(self.value, list | tuple):
            raise self.failure("a list")
        return tuple(
            Part(Place(self.place.about, f"{self.place.field}[{number}]"), each)
            for number, each in enumerate(self.value)
        )

    def text(self, *, default: str | None = None) -> str:
        if not self.is_present and default is not None:
            return default
        if not isinstance(self.value, str):
            raise self.failure("text")
        return self.value

    def choice(self, *known: str) -> str:
        value = self.value
        if not isinstance(value, str) or value not in known:
            hint = spelling_hint(value, known) if isinstance(value, str) else ""
            raise self.failure("one of " + ", ".join(known), hint)
        return value

    def integer(self, least: int = 0, most: int = LARGEST_AMOUNT) -> int:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.failure(f"an integer from {least} to {most}")
        return value

    def milli(self, least: int = 0) -> int:
        """Return a quantity in thousandths, rounded up."""
        return self._bounded(self.quantity().milli_value, least, "m")

    def units(self, least: int = 0) -> int:
        """Return a quantity in whole units, rounded up."""
        return self._bounded(self.quantity().value, least, "")

    def quantity(self) -> Quantity:
        if not self.is_present:
            raise self.failure(_QUANTITY)
        try:
            return decode_quantity(Quantity, self.value)
        except BadQuantity as problem:
            raise self.failure(_QUANTITY, str(problem)) from problem

    def failure(self, allowed: str, step: str = "") -> ParseFailure:
        return ParseFailure(self.place.parse_error(self.value, allowed, step))

    def _bounded(self, amount: int, least: int, unit: str) -> int:
        if not least <= amount <= LARGEST_AMOUNT:
            raise self.failure(f"a quantity from {least}{unit if least else ''} to {LARGEST_AMOUNT}{unit}")
        return amount
