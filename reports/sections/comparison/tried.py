"""What was tried beyond measuring both versions, as far as the runs store it."""

from collections import Counter
from collections.abc import Iterator

from ....analysis.comparison.evidence import costs
from ....analysis.comparison.result import OWN, Result
from ... import formatting as fmt
from ...model import Bullets, Section


def tried(result: Result) -> Section | None:
    """List what was measured again, added and searched; None where nothing was."""
    items = tuple(_tried(result))
    return Section("compared-tried", "What was tried", (Bullets(items),)) if items else None


def _tried(result: Result) -> Iterator[str]:
    for arm, run in result.runs.items():
        failures: dict[tuple[str, str], Counter[str]] = {}
        for one in run.retried:
            failures.setdefault((one.provider, one.verdict.replace("_", " ")), Counter())[one.reason] += 1
        for (provider, verdict), reasons in failures.items():
            why = reasons.most_common(1)[0][0] or "no reason was stored"
            rounds = fmt.plural(reasons.total(), "round")
            yield f"{arm}, {provider}: {verdict} in {rounds}, measured again (--retry), most often: {why}"
        for added in run.manifest.refinements:
            state = "" if added.complete else ", not complete"
            yield f"{arm}: --refine {added.of} of {added.challenger} added {len(added.added)} M at single shapes{state}"
    found = costs(result.searches).values()
    for side in result.searches:
        count = sum(sides[side].searches for sides in found if side in sides)
        yield f"{side}: {fmt.plural(count, 'search', 'searches')} for configurations, listed under Cost of tuning"
    if result.null is not None:
        yield "a second copy of base was measured against base (--null-arm)"
    if OWN in result.runs:
        yield "head was measured with the configurations of base and with its own (--tune)"
