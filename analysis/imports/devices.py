"""The devices that a text names: by a part of their name, or by their architecture."""

import itertools
import re
from collections.abc import Sequence
from functools import cache

from ...shapes.device import DeviceSpec, specs
from ...shapes.errors import UsageError, quote, unknown_name


def find_device(name: str) -> DeviceSpec:
    """Find a device by its full name, an unambiguous part of it ("MI300X", "H200") or its architecture ("gfx1201").

    Raises UsageError that names the candidates, or the nearest names.
    """
    rows = specs()
    exact = [row for row in rows if row.name.lower() == name.lower()]
    wanted = _key(name)
    parts = [row for row in rows if wanted and wanted in (_key(word) for word in _parts(row.name))]
    by_arch = [row for row in rows if _key(row.arch) == wanted]
    # "H20" is no part of "H200": those are two devices
    whole = re.compile(rf"(?<!\d(?=\d)){re.escape(wanted)}(?!(?<=\d)\d)")
    inside = [row for row in rows if len(wanted) > 2 and whole.search(_key(row.name))]
    for found in (exact, parts, by_arch, inside):
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(repr(row.name) for row in found)
            raise UsageError(f"device {quote(name)} may be any of {names}; give more of the name")
    raise unknown_name("device", name, list(dict.fromkeys([*map(short_name, rows), *(row.arch for row in rows)])))


@cache
def devices_in(text: str) -> tuple[DeviceSpec, ...]:
    """Devices that a sentence names; of a name that fits several (H100) those that other words of it fit best."""
    words = {_key(word) for word in re.findall(r"(?<![A-Za-z])[A-Za-z]+\d+[A-Za-z]*|\d+[A-Za-z]*", text)}
    named: dict[str, list[DeviceSpec]] = {}
    for row in specs():
        if (short := _key(short_name(row))) in words:
            named.setdefault(short, []).append(row)
    said = {_key(word) for word in _parts(text)}
    found = []
    for rows in named.values():
        fit = [len(said & {_key(word) for word in _parts(row.name)}) for row in rows]
        found += [row for row, count in zip(rows, fit, strict=True) if count == max(fit)]
    return tuple(found)


_LOOKS_LIKE_DEVICE = re.compile(
    r"(?i)\b(gfx[0-9a-f]{3,4}|sm_?\d{2,3}|MI\d{2,3}[A-Z]?|[ABHLPTV]\d{1,3}|GB\d{3}|[RG]TX|radeon|geforce|instinct|tesla|"
    r"xeon|epyc|ryzen|gaudi|TPU|CPU|apple|arc)\b"
)


def devices_of_cell(text: str) -> Sequence[DeviceSpec] | None:
    """Devices that a cell names, by name or architecture; none for one that is not in the table; None for no device."""
    if found := devices_in(text):
        return found
    words = {_key(word) for word in re.findall(r"(?<![A-Za-z])[A-Za-z]+_?\d+[A-Za-z]*", text)}
    by_arch = [row for row in specs() if _key(row.arch) in words]
    return by_arch if by_arch or _LOOKS_LIKE_DEVICE.search(text) else None


def short_name(device: DeviceSpec) -> str:
    """Return the name that people use: MI300X, H200, RTX 4090."""
    bare = re.sub(r"\(.*?\)", "", device.name).split("/")[-1]
    words = [word for word in bare.split() if re.search(r"\d", word)]
    return words[0].partition("-")[0] if words else bare.strip()


def _parts(name: str) -> list[str]:
    words = re.sub(r"[()/,]", " ", name).replace("-", " ").split()
    return [*words, *(" ".join(pair) for pair in itertools.pairwise(words))]


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
