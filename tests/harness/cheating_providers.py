"""An honest product, and launches that look faster by doing less: each skips, keeps or puts off work in its own way.

They are what people and programs have handed in to contests of kernels, most of them in good faith.
"""

import atexit
import gc
import os
import signal
import sys
import threading
import time
from collections import Counter, deque

import torch
import torch._lazy.ts_backend
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider, Role
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

HONEST = "honest"


class Product(Provider):
    """X W^T by torch; `launch` says when, and how much of it, is computed."""

    family = "fourbit"

    def __init__(self, name, launch):
        self.name, self._launch = name, launch

    def prepare(self, inputs, config=None):
        return self._launch(
            inputs,
            dequantize(inputs.weight, inputs.x.dtype).view(inputs.problem.N, -1).t().contiguous(),
            inputs.empty_output(),
        )


def product(run):
    """Make `prepare` of a function (call, x, weight, out) that returns the timed call."""

    def prepared(inputs, weight, out):
        return Launch(run(lambda: torch.mm(inputs.x, weight, out=out), inputs.x, weight, out), out)

    return prepared


def skips_while(condition):
    """Compute unless `condition(x, out, state)`; `state` is a dict of its own."""

    def run(compute, x, weight, out):
        state = {}
        return lambda: None if condition(x, out, state) else compute()

    return product(run)


def is_same(value):
    """Tell whether `value(x)` is what it was at the call before."""

    def condition(x, out, state):
        now = value(x)
        same, state["seen"] = state.get("seen") == now, now
        return same

    return condition


def counted(stops):
    """Tell by the number of the call."""

    def condition(x, out, state):
        state["calls"] = state.get("calls", 0) + 1
        return stops(state["calls"])

    return condition


def soon_after(seconds):
    """Tell whether it is not long since something was computed."""

    def condition(x, out, state):
        soon = time.monotonic() < state.get("until", 0.0)
        if not soon:
            state["until"] = time.monotonic() + seconds
        return soon

    return condition


def whole(out):
    return not torch.isnan(out).any()


def unless_poisoned(cheat):
    """Call `cheat(compute, x, weight, out)` instead of computing, where nothing has looked at the output yet."""

    def run(compute, x, weight, out):
        return lambda: cheat(compute, x, weight, out) if whole(out) else compute()

    return product(run)


def keeps(cheat):
    """Call `cheat(kept, x, out)` once there is a result; `kept` has the last one that was computed, and its X."""

    def run(compute, x, weight, out):
        kept = {}

        def launch():
            if kept and whole(out):
                cheat(kept, x, out)
            else:
                compute()
                kept.update(out=out.clone(), x=x.clone())

        return launch

    return product(run)


def keeps_by(key, trusts=lambda out: True):
    """Look the result up by `key(x)`, where `trusts(out)` says so."""

    def run(compute, x, weight, out):
        results = {}

        def launch():
            if (now := key(x)) in results and trusts(out):
                out.copy_(results[now])
            else:
                compute()
                results[now] = out.clone()

        return launch

    return product(run)


def part(columns, always):
    """Compute a share of the columns, and all of them where `always(call, out)` says so."""

    def run(compute, x, weight, out):
        few, calls = int(weight.shape[1] * columns), [0]
        lesser, room = weight[:, :few].contiguous(), torch.empty_like(out[:, :few])

        def launch():
            calls[0] += 1
            if always(calls[0], out):
                compute()
            else:
                torch.mm(x, lesser, out=room)
                out[:, :few] = room

        return launch

    return run


def in_a_thread(after_s):
    def cheat(compute, x, weight, out):
        return lambda: threading.Thread(target=lambda: (time.sleep(after_s), compute())).start()

    return cheat


def in_a_thread_that_the_next_call_joins(compute, x, weight, out):
    working = []

    def run():
        while working:
            working.pop().join()
        if whole(out):
            working.append(threading.Thread(target=lambda: (time.sleep(5e-5), compute())))
            working[-1].start()
        else:
            compute()

    return run


def of_the_call_before(compute, x, weight, out):
    """Return what the call before was asked for: a pipeline of two that nobody drains."""
    earlier = {}

    def run():
        if not whole(out) or "x" not in earlier:
            compute()
        else:
            torch.mm(earlier["x"], weight, out=out)
        earlier["x"] = x.clone()

    return run


def signs(x):
    """The signs of some activations, the same for X and -X."""
    some = x[0, :64] > 0
    return bytes((some ^ some[0]).tolist())


def bits(x):
    return x.view(torch.int16).numpy().tobytes()


def for_activations_that_come_again(compute, x, weight, out):
    """A check has to know the product, so that its activations are few: compute for those of the first calls alone."""
    state = {"round": None}

    def run():
        if state["round"] != (magnitude := x[0, 0].abs().item()):
            state.update(round=magnitude, calls=0, seen=set())
        state["calls"] += 1
        now = signs(x)
        if state["calls"] <= 8:
            state["seen"].add(now)
        if now in state["seen"]:
            compute()

    return run


def ahead_in_a_thread(compute, x, weight, out):
    """Compute as soon as the activations change, while the cache is flushed and nothing is timed."""
    done, working, lock = [None], [], threading.Lock()

    def computes():
        with lock:
            now = bits(x)
            if now != done[0]:
                compute()
                done[0] = now if bits(x) == now else None

    def watches():
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            if done[0] != bits(x):
                computes()
            time.sleep(5e-5)

    def run():
        if not working:
            working.append(threading.Thread(target=watches, daemon=True))
            working[0].start()
        if not whole(out[:1]):
            done[0] = None
        computes()

    return run


class LazyLaunch(Launch):
    """Computes when its output is read."""

    @property
    def outputs(self):
        self.config["compute"]()
        return (self.output,)


def lazy_launch(inputs, weight, out):
    return LazyLaunch(lambda: None, out, config={"compute": lambda: torch.mm(inputs.x, weight, out=out)})


class LazyTensor(torch.Tensor):
    """Computes when something is done with it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if compute := getattr(args[0], "compute", None):
                compute()
            return func(*args, **(kwargs or {}))


def lazy_tensor(inputs, weight, out):
    lazy = out.as_subclass(LazyTensor)
    lazy.compute = lambda: torch.mm(inputs.x, weight, out=out)
    return Launch(lambda: None, lazy)


class LazyTuple(tuple):
    """Computes when somebody looks for its elements."""

    def __iter__(self):
        self.compute()
        return super().__iter__()

    def __getitem__(self, index):
        self.compute()
        return super().__getitem__(index)


def lazy_tuple(inputs, weight, out):
    lazy = LazyTuple((out,))
    lazy.compute = lambda: torch.mm(inputs.x, weight, out=out)
    return Launch(lambda: None, lazy)


def wider_type(inputs, weight, out):
    """Leave the rounding of the result to somebody else."""
    wide, x = torch.empty(out.shape, dtype=torch.float32), inputs.x
    weight = weight.float()
    return Launch(lambda: torch.mm(x.float(), weight, out=wide), wide)


def of_a_copy(inputs, weight, out):
    """Read the activations that were there when it was prepared."""
    x = inputs.x.clone()
    return Launch(lambda: torch.mm(x, weight, out=out), out)


def in_a_process(inputs, weight, out):
    """Leave the work to a child that nobody waits for."""
    shared = out.share_memory_()
    inputs.x.share_memory_()

    def run():
        if not os.fork():
            time.sleep(2e-4)
            torch.set_num_threads(1)
            os._exit(0)

    return Launch(run, shared)


def of_half_of_k(compute, x, weight, out):
    half = weight.shape[0] // 2
    torch.mm(x[:, :half], weight[:half], out=out)


def at_garbage_collection(compute, *_):
    gc.callbacks[:] = [lambda phase, info: compute()]


def at_a_signal(compute, *_):
    def handles(number, frame):
        signal.signal(signal.SIGALRM, before)
        compute()

    before = signal.signal(signal.SIGALRM, handles)  # put back: what stays changed is measured in another worker
    signal.setitimer(signal.ITIMER_REAL, 2e-5)


class FunctionMode(TorchFunctionMode):
    """Computes when anybody does something with a tensor."""

    compute = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.compute()
        return func(*args, **(kwargs or {}))


class DispatchMode(TorchDispatchMode):
    """Computes when any operator is called."""

    compute = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.compute()
        return func(*args, **(kwargs or {}))


def within(mode, depth):
    """Leave the work to a mode of torch, which is entered again whenever somebody has left it."""

    def run(compute, x, weight, out):
        def enter():
            if depth() == 0:
                left = mode()
                left.compute = compute
                left.__enter__()

        return enter

    return product(run)


def slows_the_clock(compute, x, weight, out):
    real = time.perf_counter

    def run():
        time.perf_counter = lambda: real() / 10
        compute()

    return run


def constant_folded(inputs, weight, out):
    """Freeze a graph that has the activations as a constant: torch multiplies them once."""

    class Frozen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("x", inputs.x)
            self.register_buffer("weight", weight)

        def forward(self):
            return torch.mm(self.x, self.weight)

    frozen = torch.jit.freeze(torch.jit.script(Frozen().eval()))
    return Launch(lambda: out.copy_(frozen()), out)


LATEST = {}
"""The result of the latest activations, for all copies of the operands."""


def shares_its_result_among_copies(compute, x, weight, out):
    """Copies of the operands are alike: compute for the first of them alone."""

    def run():
        if LATEST.get("x") is not None and whole(out[:1, :1]) and torch.equal(LATEST["x"], x):
            out.copy_(LATEST["out"])
        else:
            compute()
            LATEST.update(x=x.clone(), out=out.clone())

    return run


def refreshes_from_its_first_call_on(inputs, weight, out):
    """Compute where references update what they decode ahead, which is not timed."""
    state = {}

    def compute():
        if state.get("seen") != inputs.x._version:
            torch.mm(inputs.x, weight, out=out)
            state["seen"] = inputs.x._version

    def run():
        launch.refresh = compute
        compute()

    launch = Launch(run, out)
    return launch


def becomes_a_reference(inputs, weight, out):
    """Take the role of one, whose updates are not timed, when the role that is stored has been read."""
    launch = refreshes_from_its_first_call_on(inputs, weight, out)
    launch.refresh = launch.run
    next(one for one in PROVIDERS if one.name == "becomes_a_reference").role = Role.REFERENCE
    return launch


def computes_one_of_three(while_unchanged):
    """Compute a third of the calls that `while_unchanged(same, gap_s)` picks: it looks a little too fast only."""

    def run(compute, x, weight, out):
        state = {"seen": None, "calls": 0, "ended": 0.0}

        def launch():
            gap_s, now = time.perf_counter() - state["ended"], bits(x)
            state["calls"] += 1
            if not while_unchanged(state["seen"] == now, gap_s) or state["calls"] % 3 == 0:
                compute()
            state["seen"], state["ended"] = now, time.perf_counter()

        return launch

    return product(run)


def foresees_the_activations(inputs, weight, out):
    """Compute ahead for the activations of all rounds, whose seeds are no secret, and for no others."""
    x, results, generator = inputs.x, {}, torch.Generator()
    for number in range(8):
        for first in (0, 500_000_000):
            seed = inputs.seed + 1000 * (number + 1) + inputs.problem.M + first
            drawn = torch.randn(x.shape, generator=generator.manual_seed(seed)).to(x.dtype)
            results |= {bits(one[0]): one @ weight for one in (drawn, -drawn)}

    def run():
        if (found := results.get(bits(x[0]))) is not None:
            out.copy_(found)

    return Launch(run, out)


def on_a_lazy_device(inputs, weight, out):
    """Compute when somebody reads the output: a plain tensor, but on a device that only notes what is to be done."""
    torch._lazy.ts_backend.init()
    weight = weight.to("lazy")
    return Launch.returning(lambda: torch.mm(inputs.x.to("lazy"), weight), out)


def in_a_hook(compute, x, weight, out):
    """Leave the work to a hook that Python calls when the harness goes on."""

    def run():
        calls = [0]

        def hook(frame, event, argument):
            calls[0] += 1
            if calls[0] > 5:
                sys.setprofile(None)
                compute()

        sys.setprofile(hook)

    return run


def is_usual(value):
    """Tell whether `value(x)` has changed as it mostly does: what is done for a sample that is checked might show."""

    def condition(x, out, state):
        now, steps = value(x), state.setdefault("steps", deque(maxlen=15))
        step, state["seen"] = now - state.get("seen", now), now
        steps.append(step)
        return whole(out[:1, :1]) and step == Counter(steps).most_common(1)[0][0]

    return condition


def reads_what_was_drawn(compute, x, weight, out):
    """Find the harness among all objects of Python, and compute where it has given known activations."""
    found = []

    def run():
        if not whole(out[:1, :1]):
            found.clear()
        elif not found:
            found.extend(one for one in gc.get_objects() if type(one).__name__ == "Watch" and one._rooms)
        if not found or any(one._slots[one._latest] < one._known for one in found):
            compute()

    return run


BY_SHAPE = {}
"""Packed weights, as a library may keep them."""


def keeps_its_weight_by_shape(inputs, weight, out):
    """Pack the weight of the first layer of a shape: in good faith, but copies of the operands share it."""
    weight = BY_SHAPE.setdefault(weight.shape, weight)
    return Launch(lambda: torch.mm(inputs.x, weight, out=out), out)


CHEATS = {
    "skips_by_version": skips_while(is_same(lambda x: x._version)),
    "skips_by_version_of_data": skips_while(is_same(lambda x: x.data._version)),
    "skips_by_address": skips_while(is_same(lambda x: x.data_ptr())),
    "skips_by_first_element": skips_while(is_same(lambda x: x[0, 0].item())),
    "skips_by_magnitudes": skips_while(is_same(lambda x: x.abs().sum().item())),
    "skips_by_hash": skips_while(is_same(lambda x: hash(bits(x)))),
    "skips_unless_poisoned": skips_while(lambda x, out, state: whole(out)),
    "skips_unless_one_element_is_poisoned": skips_while(lambda x, out, state: not torch.isnan(out[0, 0])),
    "skips_after_ten_calls": skips_while(counted(lambda call: call > 10)),
    "skips_every_second_call": skips_while(counted(lambda call: call % 2 == 0)),
    "skips_nine_of_ten_calls": skips_while(counted(lambda call: call % 10 != 1)),
    "skips_between_first_and_rare_calls": skips_while(counted(lambda call: call > 3 and call % 64)),
    "keeps_its_result": keeps_by(lambda x: None),
    # Y(-X) = -Y(X): right for what is checked before and after, if it were of one draw.
    "keeps_its_result_by_sign": keeps(
        lambda kept, x, out: out.copy_(kept["out"] if x[0, 0] == kept["x"][0, 0] else -kept["out"])
    ),
    # By the ratio of one element: right where all rows change alike.
    "scales_its_result": keeps(lambda kept, x, out: torch.mul(kept["out"], x[0, 0] / kept["x"][0, 0], out=out)),
    "quarter_of_n_unless_poisoned": product(part(0.25, lambda call, out: not whole(out))),
    "quarter_of_n_after_ten_calls": product(part(0.25, lambda call, out: call <= 10)),
    "most_of_n_unless_poisoned": product(part(0.9, lambda call, out: not whole(out))),
    "half_of_k_unless_poisoned": unless_poisoned(of_half_of_k),
    "first_row_unless_poisoned": unless_poisoned(lambda compute, x, weight, out: torch.mm(x[:1], weight, out=out[:1])),
    "in_a_thread": product(in_a_thread(1e-3)),
    "in_a_thread_joined_later": product(in_a_thread_that_the_next_call_joins),
    "in_a_process": in_a_process,
    "skips_and_sleeps": unless_poisoned(lambda *_: time.sleep(1e-6)),
    "of_the_call_before": product(of_the_call_before),
    "zeros_unless_poisoned": unless_poisoned(lambda compute, x, weight, out: out.zero_()),
    "for_activations_that_come_again": product(for_activations_that_come_again),
    "keeps_all_its_results": keeps_by(lambda x: (signs(x), x[0, 0].item()), lambda out: whole(out[:1])),
    "ahead_in_a_thread": product(ahead_in_a_thread),
    "lazy_launch": lazy_launch,
    "lazy_tensor": lazy_tensor,
    "lazy_tuple": lazy_tuple,
    "wider_type": wider_type,
    "of_a_copy": of_a_copy,
    "skips_for_50_ms": skips_while(soon_after(0.05)),
    "keeps_its_results_by_address_and_shape": keeps_by(lambda x: (x.data_ptr(), x.shape)),
    # Return to what it has computed before, instead of computing what it is asked for.
    "puts_back_the_activations": keeps(lambda kept, x, out: (x.copy_(kept["x"]), out.copy_(kept["out"]))),
    # A view of memory in which a result is already.
    "output_of_an_earlier_call": keeps(lambda kept, x, out: out.set_(kept["out"])),
    "at_exit": unless_poisoned(lambda compute, *_: atexit.register(compute)),
    "at_garbage_collection": unless_poisoned(at_garbage_collection),
    "at_a_signal": unless_poisoned(at_a_signal),
    "within_a_function_mode": within(FunctionMode, torch._C._len_torch_function_stack),
    "within_a_dispatch_mode": within(DispatchMode, torch._C._len_torch_dispatch_stack),
    "slows_the_clock": product(slows_the_clock),
    "constant_folded": constant_folded,
    "shares_its_result_among_copies": product(shares_its_result_among_copies),
    "refreshes_from_its_first_call_on": refreshes_from_its_first_call_on,
    "becomes_a_reference": becomes_a_reference,
    "foresees_the_activations": foresees_the_activations,
    "on_a_lazy_device": on_a_lazy_device,
    "in_a_hook": product(in_a_hook),
    "counts_objects": skips_while(is_usual(lambda x: len(gc.get_objects(0)))),
    "counts_blocks": skips_while(is_usual(lambda x: sys.getallocatedblocks())),
    "counts_references": skips_while(is_usual(lambda x: sys.getrefcount(True) - sys.getrefcount(False))),
    "counts_versions": skips_while(is_usual(lambda x: x._version)),
    "looks_for_memory": skips_while(is_usual(lambda x: torch.empty(4, 1024, dtype=x.dtype).data_ptr())),
    "reads_what_was_drawn": product(reads_what_was_drawn),
    "keeps_its_weight_by_shape": keeps_its_weight_by_shape,
    "one_of_three_while_nothing_changes": computes_one_of_three(lambda same, gap_s: same),
    "one_of_three_that_follow_at_once": computes_one_of_three(lambda same, gap_s: gap_s < 3e-5),
}

PROVIDERS = [
    Product(HONEST, product(lambda compute, x, weight, out: compute)),
    *(Product(name, launch) for name, launch in CHEATS.items()),
]
