"""Fields of HTTP as texts, and as the bytes that they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Union

Headers = Union[Mapping[str, str], Iterable[tuple[str, str]]]
"""Fields of a message, by name or in order."""


def as_octets(text: str) -> bytes:
    """A text of Latin-1, which is what HTTP has."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} has characters that HTTP has not; percent-encode them") from None


def as_fields(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Fields as they are sent."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(as_octets(name.lower()), as_octets(value)) for name, value in pairs]


def as_texts(fields: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Fields that came."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
