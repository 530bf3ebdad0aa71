"""A measuring process: `python -P -m rooflens.api.task FILE.json` measures what a request asks for.

    request  as `Request.written` writes it; with `searches`, configurations are searched
    origin   what may be imported (`harness.worker.code_origin.Origin`): without providers, those of the files alone are
             measured; null: anything may
    cells    those to measure (`harness.compare.replay.keep_only`); null: all

It ends as a command does, with one line on stderr and its exit code: 4 when the time was over before everything was
measured. The process may be of another environment than its parent, but never of another rooflens.
"""

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..harness.compare.replay import keep_only
from ..harness.worker.code_origin import Origin
from ..shapes.errors import IncompleteError
from ..shapes.request import Request
from .failures import explained, fail
from .measuring import measured, told
from .planned import planned
from .run_folders import how_to_resume
from .selection import own_providers
from .stopping import stop_signals


def main(path: str) -> int:
    """Measure, and return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _measure(json.loads(Path(path).read_text(encoding="utf-8")))
    except BaseException as error:
        return fail(*explained(error))
    return 0


def _measure(task: dict[str, Any]) -> None:
    request = Request.read(task["request"])
    own = own_providers(request)
    origin = Origin.read(task["origin"]) if task["origin"] else None
    if origin:
        request = replace(request, providers=request.providers or tuple(own))
    plan = planned(request, own)
    cells = plan.cells if task["cells"] is None else keep_only(plan.cells, task["cells"])
    plan = replace(plan, origin=origin, cells=cells)
    with plan.opened() as (store, content), stop_signals() as stopped:
        complete = measured(plan, store, content, told(_tell), stopped)
    if not complete:
        raise IncompleteError(f"this was cut short: {how_to_resume(plan.folder)}")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
