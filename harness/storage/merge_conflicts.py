"""What keeps shards from being one run: other conditions, other code, the same unit twice."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...shapes.protocol import LIMITS
from ...shapes.run_folder.columns import CELLS
from ...shapes.run_folder.manifest import MANIFEST, Manifest
from ..plan.plan import MODEL_FIELDS
from .shards import Commit, Shard

DEVICE_FACTS = ("kind", "name", "arch", "llc_bytes")
"""What the devices of all shards have in common. Their uuid may differ: a fleet measures one sweep together."""

PACKAGES = ("torch", "triton", "bitsandbytes")


Obstacle = tuple[Path, str]
"""A folder, and why the shard in it does not join those before it."""


def obstacles(shards: Sequence[Shard]) -> list[Obstacle]:
    """List what keeps shards from being merged, one line for each kind and pair of shards; pure."""
    found: list[Obstacle] = []
    distinct: dict[Path, Shard] = {}
    for shard in shards:
        if shard.folder.resolve() in distinct:
            found.append((shard.folder, f"{shard.folder} is given twice"))
        distinct.setdefault(shard.folder.resolve(), shard)
    first, *others = distinct.values()
    for other in others:
        found += _different_conditions(first, other)
    return [*found, *_different_code(distinct.values()), *_repeated(distinct.values())]


def _facts(manifest: Manifest) -> dict[str, object]:
    """What shards must agree in, by the name that the user knows it by."""
    return {
        **{key: getattr(manifest, key) for key in ("version", "suite", "seed", "rounds", "baseline", "tuned")},
        **{f"protocol {key}": value for key, value in manifest.protocol.to_json().items() if key not in LIMITS},
        **{f"device {key}": getattr(manifest.device, key) for key in DEVICE_FACTS},
        **{key: getattr(manifest, key) for key in ("timer", "threads")},
        **{name: manifest.environment.get(name) for name in PACKAGES},
    }


def _different_conditions(first: Shard, other: Shard) -> Iterator[Obstacle]:
    """Find in what the conditions of `other` are not those of `first`: suite, protocol, device model, software."""
    there, here = _facts(first.manifest), _facts(other.manifest)
    for what in dict.fromkeys((*there, *here)):
        if there.get(what) != here.get(what):
            yield (
                other.folder,
                f"{what} is {_shown(there.get(what))} in {first.folder / MANIFEST} and {_shown(here.get(what))} in "
                f"{other.folder / MANIFEST}: timings of the two do not mix",
            )


def _different_code(shards: Iterable[Shard]) -> Iterator[Obstacle]:
    """Find providers that are other code than in a shard before."""
    known: dict[str, tuple[object, Path]] = {}
    for shard in shards:
        for name, info in shard.manifest.providers.items():
            code = info.role, info.source  # its file may lie elsewhere on another machine
            stored, where = known.setdefault(name, (code, shard.folder))
            if stored != code:
                yield (
                    shard.folder,
                    f"provider {name} is other code in {shard.folder / MANIFEST} than in {where / MANIFEST}: measure "
                    "one of the two again",
                )


def _repeated(shards: Iterable[Shard]) -> Iterator[Obstacle]:
    """Find units, coordinates and tables of a cell that are in two shards; the first of each pair is reported."""
    units: dict[tuple[str, int], tuple[Path, Commit]] = {}
    cells: dict[tuple[str, ...], tuple[Shard, Commit]] = {}
    owners: dict[tuple[str, str], Path] = {}
    reported = set()
    for shard in shards:
        for commit in shard.commits:
            where, earlier = units.setdefault(commit.unit, (shard.folder, commit))
            if earlier is not commit and ("unit", where) not in reported:
                reported.add(("unit", where))
                yield (
                    shard.folder,
                    f"{_at(shard.folder, commit)}: round {commit.unit[1]} of cell {commit.unit[0]} duplicates "
                    f"{_at(where, earlier)}: exclude one of the two runs",
                )
            first, earlier = cells.setdefault(commit.coordinates, (shard, commit))
            if first is shard:
                cells[commit.coordinates] = (shard, commit if commit.identity else earlier)
                continue
            here, there = ((one.unit[0], of.uuid(one)) for of, one in ((shard, commit), (first, earlier)))
            is_other = here != there or (commit.identity != earlier.identity and commit.identity and earlier.identity)
            if is_other and ("cell", first.folder) not in reported:
                reported.add(("cell", first.folder))
                yield (
                    shard.folder,
                    f"{_at(shard.folder, commit)}: {_named(commit)} is of other code, another configuration or another "
                    f"device than in {_at(first.folder, earlier)}, so their times are not of one cell",
                )
        reported.clear()
        for table, names in shard.per_cell.items():
            shared = [name for name in sorted(names) if owners.setdefault((table, name), shard.folder) != shard.folder]
            if shared:
                where = owners[table, shared[0]]
                yield (
                    shard.folder,
                    f"cell {shared[0]} is in {table}.csv of both {shard.folder} and {where}: exclude one of the two",
                )


def _at(folder: Path, commit: Commit) -> str:
    return f"{folder / CELLS.file} line {commit.line}"


def _named(commit: Commit) -> str:
    fields = dict(zip(MODEL_FIELDS, commit.coordinates, strict=True))
    return " ".join(
        (fields["provider"], fields["model"], fields["layer"], f"M={fields['M']}", fields["dtype"], fields["cache"])
    )


def _shown(value: object) -> str:
    return "unknown" if value in (None, "") else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
