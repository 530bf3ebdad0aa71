"""A policy as a Python function without imports: if-statements that a reader can check and a caller can paste."""

import json
from collections.abc import Iterator

from .policy import Policy, Rows, ranges
from .provenance import Provenance
from .timings import SHAPE

_SIGNATURE = (
    'def choose(arch, dtype, scheme, M, N, K, B=1, E=1, top_k=1, op="gemm", pass_="fwd"):',
    '    """Name the kernel to run; where nothing was shown to be better, or nothing was measured, the incumbent.',
    "",
    "    The caller runs the incumbent where the named kernel does not take the problem.",
    '    """',
)


def emit_python(policy: Policy, provenance: Provenance) -> str:
    """Write the module: its provenance as comments, then `choose`."""
    lines = [f"# {line}" for line in ("written by rooflens dispatch", *provenance.lines())]
    lines += ["", "", *_SIGNATURE]
    lines += [f"    if arch != {_text(policy.arch)}:", f"        return {_text(policy.incumbent)}"]
    for setting, rule in policy.rules.items():
        lines.append(f"    if (op, pass_, dtype, scheme) == ({', '.join(map(_text, setting))}):")
        for shape, rows in rule.items():
            steps = list(_steps(rows, policy.incumbent))
            if shape:
                steps = [f"if ({', '.join(SHAPE)}) == {shape!r}:", *(f"    {line}" for line in steps)]
            lines += [f"        {line}" for line in steps]
    return "\n".join([*lines, f"    return {_text(policy.incumbent)}"]) + "\n"


def _steps(rows: Rows, incumbent: str) -> Iterator[str]:
    """Yield the statements of the rows of one rule; the last is a return."""
    for size, arm in ranges(rows, incumbent):
        yield f"if M <= {size}:"
        yield f"    return {_text(arm)}"
    yield f"return {_text(incumbent)}"


def _text(name: str) -> str:
    """Write a text as Python does, in double quotes.

    JSON's escapes are Python's, but for what lies beyond U+FFFF: there JSON writes two that are one.
    """
    written = [json.dumps(one)[1:-1] if ord(one) < 0x10000 else f"\\U{ord(one):08x}" for one in name]
    return f'"{"".join(written)}"'
