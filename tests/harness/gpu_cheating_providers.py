"""An honest product on a GPU, and launches whose work the timed stream does not wait for, or that they do not do."""

import torch
from cheating_providers import HONEST, Product, counted, in_a_thread, is_same, keeps_by, part, product, skips_while
from rooflens.kernels.provider import Launch, Provider


def launched(run):
    """Make `prepare` of a function (x, weight, out) that returns the timed call."""
    return lambda inputs, weight, out: Launch(run(inputs.x, weight, out), out)


def on_a_side_stream(waits=False, is_joined=False):
    """Nobody waits for the side stream, which may wait for the operands; or the next call alone joins it."""

    def run(x, weight, out):
        side = torch.cuda.Stream()

        def launch():
            if is_joined:
                torch.cuda.current_stream().wait_stream(side)
            if waits:
                side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.mm(x, weight, out=out)

        return launch

    return launched(run)


def half_on_a_side_stream(x, weight, out):
    side, half = torch.cuda.Stream(), weight.shape[1] // 2
    first, second = weight[:, :half].contiguous(), weight[:, half:].contiguous()

    def run():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out[:, half:] = torch.mm(x, second)
        out[:, :half] = torch.mm(x, first)

    return run


def replay_of_a_copy(x, weight, out):
    """A graph that was captured on activations of its own."""
    own = x.clone()
    torch.mm(own, weight, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mm(own, weight, out=out)
    calls = [0]

    def run():
        calls[0] += 1
        if calls[0] < 4:
            own.copy_(x)
        graph.replay()

    return run


CHEATS = {
    "on_a_side_stream": on_a_side_stream(),
    "on_a_side_stream_that_waits": on_a_side_stream(waits=True),
    "joined_by_the_next_call": on_a_side_stream(waits=True, is_joined=True),
    "half_on_a_side_stream": launched(half_on_a_side_stream),
    "replay_of_a_copy": launched(replay_of_a_copy),
    "eighth_of_n_after_a_few_calls": product(part(1 / 8, lambda call, out: call < 6)),
    "in_a_thread": product(in_a_thread(2e-4)),
    "keeps_its_result": keeps_by(lambda x: None),
    "quarter_of_n_after_ten_calls": product(part(0.25, lambda call, out: call <= 10)),
    "skips_after_ten_calls": skips_while(counted(lambda call: call > 10)),
    "skips_by_address": skips_while(is_same(lambda x: x.data_ptr())),
}

PROVIDERS: list[Provider] = [
    Product(HONEST, product(lambda compute, x, weight, out: compute)),
    *(Product(name, launch) for name, launch in CHEATS.items()),
]
