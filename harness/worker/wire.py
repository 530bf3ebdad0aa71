"""What goes through the pipe between a parent and its child: plain JSON, and never code.

A message is [FORMAT, name of its class, its fields], in UTF-8. A child runs code of other people, perhaps in another
environment: what it sends is read by the types of `messages`, and a child that sends anything else is ended.

Times arrive bit for bit, NaN and infinities too. A value without a type of its own (a column, a configuration) arrives
as JSON has it: tuples as lists, keys as texts, scalars of numpy and torch as numbers of Python. What JSON has no way to
write is a TypeError of its sender.
"""

import json
import struct
from dataclasses import is_dataclass
from multiprocessing.connection import Connection
from typing import Any

from ...shapes.errors import RooflensError
from ...shapes.files.json_file import parse_value
from ...shapes.files.record import WrongTypeError, from_json, shallow
from ...shapes.scheme import Scheme
from . import messages

FORMAT = 1

LONGEST = 1 << 28
"""Bytes of a message: more than a device can be asked to answer."""

KINDS = {
    kind.__name__: kind
    for kind in (
        *(messages.Calibrate, messages.TakeCanary, messages.Work, messages.Stored),
        *(messages.Ready, messages.Refused, messages.Begin, messages.Calibrated, messages.CanaryTaken),
        *(messages.UnitResult, messages.SearchResult),
        *(messages.Done, messages.Plain),
    )
}


class MalformedError(Exception):
    """What arrived is no message; says why."""


def send(connection: Connection, message: Any) -> None:
    """Send a message. Raises TypeError or ValueError for what cannot be written."""
    connection.send_bytes(to_bytes(message))


def receive(connection: Connection) -> Any:
    """Wait for a message. Raises MalformedError, and EOFError or OSError where the other end is gone."""
    return from_bytes(read(connection))


def read(connection: Connection) -> bytes:
    """Wait for a message, and return it as it was sent. Raises as `receive`."""
    try:
        return connection.recv_bytes(LONGEST)
    except OSError:
        if connection.closed or connection.readable:
            raise
        raise MalformedError(f"longer than {LONGEST >> 20} MiB") from None


def to_bytes(message: Any) -> bytes:
    """Write a message."""
    return json.dumps([FORMAT, type(message).__name__, shallow(message)], default=_plain).encode()


def from_bytes(content: bytes) -> Any:
    """Read a message. Raises MalformedError."""
    try:
        number, name, fields = parse_value(content.decode())
        if number != FORMAT or name not in KINDS:
            raise MalformedError(f"{name!r} of format {number!r} is unknown; known is format {FORMAT}")
        return from_json(KINDS[name], fields)
    except (ValueError, TypeError, struct.error, WrongTypeError, RooflensError) as error:
        raise MalformedError(str(error)) from None


def _plain(value: Any) -> Any:
    """Return what JSON can write of a value that it cannot write itself."""
    if isinstance(value, Scheme):
        return [value.name, value.dtype]
    if is_dataclass(value):
        return shallow(value)
    if callable(item := getattr(value, "item", None)):
        return item()
    raise TypeError(f"{type(value).__name__} is no plain value")
