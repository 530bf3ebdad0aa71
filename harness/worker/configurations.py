"""Which configuration a cell runs: the default, that of a tuned table, or the winner of a search."""

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...kernels.provider import AnyProvider
from ...shapes.tuned import TunedTable
from ..isolation.faults import ProviderError, SearchError, StateLostError, explain, is_lost
from ..isolation.process_state import Guard
from ..plan.plan import Cell
from .bench import Bench
from .messages import PREPARE_PHASE, Begin, ChosenConfig, SearchResult, Work
from .operands import Operands
from .prepared import offered
from .search import Search
from .task_progress import TaskProgress


class Configurations:
    """Chooses and searches configurations on one bench; `table` is that of --tuned, `tuning` as in the protocol,
    `trusted` as of `registry.trusted`.

    `send` sends a message to the parent; `report` does too, and returns when it is stored.
    """

    def __init__(
        self,
        bench: Bench,
        providers: Mapping[str, AnyProvider],
        trusted: Collection[str],
        guard: Guard,
        tuning: str,
        table: TunedTable | None,
        send: Callable[[Any], object],
        report: Callable[[Any], object],
    ) -> None:
        self._bench, self._providers, self._trusted, self._guard = bench, providers, trusted, guard
        self._tuning, self._table = tuning, table
        self._send, self._report = send, report

    def choose(self, job: TaskProgress, operands: Operands, index: int, work: Work) -> ChosenConfig:
        """Decide on the configuration of a cell: the default, the table's, or the winner of a search."""
        cell = job.task.cells[index]
        provider = self._providers[cell.provider]
        candidates = self._bench.candidates(provider, cell)
        default = candidates[0] if candidates else None
        if self._tuning == "default" or not candidates:
            return ChosenConfig(default, "default")
        if self._table:
            config = self._table.lookup(self._bench.device, cell.problem, cell.scheme, cell.provider, cell.cache)
            if config is None:
                return ChosenConfig(default, "default", remark="not in the tuned table")
            own = offered(config, candidates)
            if own is None:
                return ChosenConfig(default, "default", remark="the provider no longer offers the tuned configuration")
            return ChosenConfig(own, "pinned")
        if earlier := work.chosen.get(index):
            own = offered(earlier.config, candidates)
            if own is None:
                raise ProviderError(f"the configuration that was searched, {earlier.config}, is no candidate any more")
            return replace(earlier, config=own)
        if len(candidates) < 2:
            return ChosenConfig(default, "default")
        return self._searched(job, operands, index, work)

    def _searched(self, job: TaskProgress, operands: Operands, index: int, work: Work) -> ChosenConfig:
        """Search the configuration of a cell, report all that was tried, and choose the winner."""
        cell = job.task.cells[index]
        if operands.truth is None:
            operands.draw(self._bench.seed + operands.inputs.problem.M)
        found = self.search(cell, operands, index, work, str(cell))
        job.begin(PREPARE_PHASE, [index])
        self._report(SearchResult(index, found.columns()))
        if found.winner is None:
            first = found.rows[0]
            raise SearchError(first.verdict, f"no candidate passed; the first: {first.reason}")
        return ChosenConfig(found.config, "cold", len(found.rows), found.seconds)

    def search(
        self,
        cell: Cell,
        operands: Operands,
        index: int,
        work: Work,
        seed: str,
        around: contextlib.AbstractContextManager[object] = contextlib.nullcontext(),  # noqa: B008
    ) -> Search:
        """Search the configuration of one cell, within `around`. Raises StateLostError when the process is lost."""

        def begin(candidate: int, phase: str) -> None:
            self._send(Begin(phase, ((index, 0),), candidate))

        guarded = partial(self._guard.around, cell.provider)
        failed = work.failed_candidates.get(index)
        try:
            with around:
                return self._bench.search(
                    *(self._providers[cell.provider], cell, operands, begin, guarded, seed, failed),
                    threads_s=self._guard.threads_s,
                    refreshes=cell.provider in self._trusted,
                )
        except StateLostError:
            raise
        except Exception as error:
            if is_lost(error):
                raise StateLostError(explain(error, "searching")) from error
            raise
