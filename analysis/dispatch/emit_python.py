"""A policy as a Python function without imports: if-statements that a reader can check and a caller can paste.

The function takes what `policy.Policy.choose` takes and returns the same name for it.
"""

import json
from collections.abc import Iterator

from .policy import Leaf, Node, Policy, Rule, ShapeTable, Split
from .provenance import Provenance
from .timings import SHAPE

_SIGNATURE = (
    'def choose(arch, dtype, scheme, M, N, K, B=1, E=1, top_k=1, op="gemm", pass_="fwd", waves=None):',
    '    """Name the kernel to run; where nothing was shown to be better, or nothing was measured, the incumbent.',
    "",
    "    The caller runs the incumbent where the named kernel does not take the problem.",
)

_WAVES = (
    "    waves: ceil(workgroups of the first challenger / (compute units x workgroups that one of them holds));",
    "    without it, rules that ask for it choose the incumbent.",
)


def emit_python(policy: Policy, provenance: Provenance) -> str:
    """Write the module: its provenance as comments, then `choose`."""
    uses_waves = any(_uses_waves(measured.rule) for measured in policy.rules.values())
    lines = [f"# {line}" for line in ("written by rooflens dispatch", *provenance.lines())]
    lines += ["", "", *_SIGNATURE, *(_WAVES if uses_waves else ()), '    """']
    lines += [f"    if arch != {_text(policy.arch)}:", f"        return {_text(policy.incumbent)}"]
    for setting, measured in policy.rules.items():
        lines.append(
            f"    if (op, pass_, dtype, scheme) == ({', '.join(map(_text, setting))}) and M <= {measured.largest_M}:"
        )
        lines += [f"        {line}" for line in _rule(measured.rule, policy.incumbent)]
    return "\n".join([*lines, f"    return {_text(policy.incumbent)}"]) + "\n"


def _rule(rule: Rule, incumbent: str) -> Iterator[str]:
    """Yield the statements of a rule; each path ends in a return."""
    if not isinstance(rule, ShapeTable):
        yield from _node(rule, incumbent)
        return
    for shape, rows in rule.rows.items():
        yield f"if ({', '.join(SHAPE)}) == {shape!r}:"
        yield from (f"    {line}" for line in _steps(rows, incumbent))
    yield from _node(rule.otherwise or Leaf(incumbent), incumbent)


def _steps(rows: tuple[tuple[int, Leaf], ...], incumbent: str) -> Iterator[str]:
    """Yield the rows of one shape; neighbours that run the same arm are one statement."""
    steps = [(size, leaf.arm) for size, leaf in rows]
    for index, (size, arm) in enumerate(steps):
        following = steps[index + 1][1] if index + 1 < len(steps) else None
        if following != arm and (following or arm != incumbent):
            yield f"if M <= {size}:"
            yield f"    return {_text(arm)}"
    yield f"return {_text(incumbent)}"


def _node(node: Node, incumbent: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"return {_text(node.arm)}"
        return
    if node.feature == "waves":
        yield "if waves is None or waves != waves:"
        yield f"    return {_text(incumbent)}"
    yield f"if {node.feature} <= {node.limit}:"
    yield from (f"    {line}" for line in _node(node.low, incumbent))
    yield from _node(node.high, incumbent)


def _uses_waves(rule: Rule) -> bool:
    if isinstance(rule, ShapeTable):
        return rule.otherwise is not None and _uses_waves(rule.otherwise)
    return isinstance(rule, Split) and (rule.feature == "waves" or _uses_waves(rule.low) or _uses_waves(rule.high))


def _text(name: str) -> str:
    """Write a text as Python does, in double quotes.

    JSON's escapes are Python's, but for what lies beyond U+FFFF: there JSON writes two that are one.
    """
    written = [json.dumps(one)[1:-1] if ord(one) < 0x10000 else f"\\U{ord(one):08x}" for one in name]
    return f'"{"".join(written)}"'
