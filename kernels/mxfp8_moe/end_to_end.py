"""grouped_with_align_moe: laying out the routing and the product, as a model runs them after its router."""

from typing import TYPE_CHECKING

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import ID_BYTES, MxFp8Moe
from ..provider import Config, Launch
from .align import align_requests, prepare_align
from .inputs import MoeInputs
from .launch import moe_geometry, moe_launch
from .providers import Grouped
from .triton_configs import traits

if TYPE_CHECKING:
    from ..aot import Request


class GroupedWithAlign(Grouped):
    """moe_align_block_size (two launches, no host synchronization) and `grouped_moe`, both timed."""

    name = "grouped_with_align_moe"

    def prepare(self, inputs: MoeInputs, config: Config | None = None) -> Launch:
        """Allocate the layout, output and scratch; compile and warm up."""
        problem = inputs.problem
        config = config or self.candidates(problem, inputs.scheme, inputs.device)[0]
        align, aligned = prepare_align(inputs.topk_ids, config["BLOCK_M"], problem.E)
        output = inputs.empty_output()
        chosen = traits(inputs.device.arch)
        launch = moe_launch(self.kernel, inputs, aligned, output, config, chosen, self.wide)
        geometry = moe_geometry(launch, self.kernel, problem, aligned, config, chosen)

        def run() -> None:
            align()
            launch.run()

        kernels = ("align_count_kernel", "align_place_kernel", launch.kernel)
        return Launch(run, output, dict(config), kernels, artifact=launch.artifact, geometry=geometry)

    def moved_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """As `grouped_moe`, with topk_ids read twice and all of the layout written."""
        length = problem.rows + problem.E * (config["BLOCK_M"] - 1)
        blocks = -(-length // config["BLOCK_M"])
        layout = ID_BYTES * (2 * problem.rows + length + blocks + 8 * problem.E)
        return super().moved_bytes(problem, scheme, config) + int(layout)

    def builds(
        self, problem: Problem, scheme: MxFp8Moe, device: Device, config: Config
    ) -> "tuple[Request, ...]":  # fmt: skip
        """The two kernels of the layout, and the product."""
        layout = align_requests(problem.rows, config["BLOCK_M"], problem.E)
        return (*layout, *super().builds(problem, scheme, device, config))


GROUPED_WITH_ALIGN = GroupedWithAlign()
