"""`rooflens doctor`: the page of a real machine without a GPU, of planted ones, its JSON and its exit code."""

import json
import os
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from rooflens.harness.machine import survey as surveys
from rooflens.harness.machine.survey import Offer, ProviderOffer
from rooflens.harness.telemetry.source import DeviceProcess

from ..harness.planted_surveys import GPU, HOST, ROCM
from .pseudo_terminal import on_terminal
from .tiny_runs import fresh

SECTIONS = ["device", "now", "caches", "host", "software", "timers", "providers", "room", "advice"]


@pytest.fixture
def planted(monkeypatch):
    """Return `planted(survey)`: the doctor finds this machine."""

    def plant(survey):
        monkeypatch.setattr(surveys, "survey", lambda name, providers, runs: survey)

    return plant


def rows(page: str) -> dict[str, str]:
    """Label -> value of the lines of a page in a pipe; of several "warn" lines the last one."""
    found = (re.match(r"(\S+(?: \S+)*)\s{2,}(\S.*)", line) for line in page.splitlines())
    return {match[1]: match[2] for match in found if match}


def test_json_of_this_machine_is_complete():
    """From a process of its own, as a user starts it."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    real = json.loads(fresh(Path.cwd(), "doctor", "--device", "cpu", "--json", env=environment).stdout)
    found = real["survey"]
    assert set(found) == set(surveys.Survey.__dataclass_fields__)
    assert found["device"]["kind"] == "cpu"
    assert found["host"]["usable_cores"] == len(os.sched_getaffinity(0))
    assert found["telemetry"] == {"name": "host", "available": True, "reason": ""}
    assert 0 <= found["reading"]["busy_elsewhere"] <= 1
    assert found["caches"]["llc_bytes"] == found["device"]["llc_bytes"]
    assert {one["name"]: one["available"] for one in found["timers"]}["host"] is True
    stats = os.statvfs(".")
    assert found["disk_free_bytes"] == pytest.approx(stats.f_bavail * stats.f_frsize, rel=0.2)
    assert {one["level"] for one in real["advice"]} <= {"ok", "warn", "problem"}
    providers = {one["name"]: one for one in found["providers"]}
    assert providers["dequant_blas"]["available"]
    assert "GPU" in providers["simt_4bit"]["reason"]
    assert (found["software"]["torch"], found["software"]["triton"]) == (version("torch"), version("triton"))
    assert [one["name"] for one in found["software"]["triton_owners"]] == ["triton"]


def test_page_of_a_gpu_has_every_section_and_figures_with_their_limits(planted, invoke):
    planted(
        replace(
            GPU,
            others=(DeviceProcess(4711, "train.py", 20 << 30),),
            reading=replace(GPU.reading, other_processes=1, memory_clock_hz=3201e6),
        )
    )
    page = invoke("doctor").out
    heads = [line for line in page.splitlines() if line in SECTIONS]
    assert heads == SECTIONS
    found = rows(page)
    assert found["name"] == "cuda:0: NVIDIA H200"
    assert found["architecture"] == "sm90, 132 SMs"
    assert found["device table"] == "NVIDIA H200 SXM (verified)"
    assert found["driver"] == "580.159.03"
    assert (found["clock"], found["memory clock"]) == ("345 of 1980 MHz", "3201 of 3201 MHz")
    assert (found["power"], found["temperature"]) == ("76 of 700 W", "31 °C")
    assert found["modes"] == "ECC on, MIG off, persistence mode on"
    assert (found["other processes"], found["process 4711"]) == ("1", "train.py, 20 GiB")
    assert found["last level"] == "60 MiB (device table); cold evicts this much"
    assert "yes                   event host" in page.splitlines()
    assert found["no"] == "simd_4bit_cpu: needs a CPU"
    assert "another process is on the device (4711 train.py), holding 20.0 GiB" in found["warn"]


def test_page_of_an_amd_gpu_names_the_package_that_owns_triton(planted, invoke):
    planted(ROCM)
    found = rows(invoke("doctor").out)
    assert found["architecture"] == "gfx942, 304 CUs"
    assert found["triton"] == "3.6.0 (from pytorch-triton-rocm 3.6.0)"
    assert found["torch's L2"] == "4 MiB"
    assert found["partition"] == "SPX, NPS1"


def test_unknown_figures_are_called_unknown_or_left_out_but_never_zero(planted, invoke):
    planted(
        replace(
            GPU,
            telemetry=Offer("unknown", False, "nvidia-ml-py is missing: pip install rooflens[nvidia]"),
            reading=surveys.Reading(),
            board=surveys.Board(),
            free_bytes=None,
        )
    )
    found = rows(invoke("doctor").out)
    assert found["telemetry"] == "unknown: nvidia-ml-py is missing: pip install rooflens[nvidia]"
    assert found["free memory"] == "unknown"
    assert not {"clock", "power", "temperature", "driver", "modes", "other processes"} & set(found)


def test_providers_are_grouped_by_family_and_a_reason_is_said_once(planted, invoke):
    gpu_only = [ProviderOffer(f"kernel_{number}", False, "needs a GPU", "fourbit") for number in range(5)]
    asked = [
        ProviderOffer("blas", True, "", "fourbit"),
        *gpu_only,
        ProviderOffer("aiter", False, "is not installed", "a16w8"),
    ]
    planted(replace(HOST, providers=(*asked, ProviderOffer("mine", True))))
    page = invoke("doctor").out
    lines = page[page.index("\nproviders") :].split("\n\n")[0].splitlines()[2:]
    assert [line.split(maxsplit=1) for line in lines] == [
        ["fourbit", "1 of 6: blas"],
        ["a16w8", "none of 1"],
        ["any", "family            1 of 1: mine"],
        ["no", "5 providers: needs a GPU"],
        ["no", "aiter: is not installed"],
        ["all", "rooflens list providers"],
    ]


@pytest.mark.parametrize(
    ("survey", "arguments", "code", "words"),
    [
        (replace(HOST, providers=(ProviderOffer("blas", False, "why"),)), [], 1, "nothing can be measured"),
        (replace(HOST, providers=(ProviderOffer("blas", False, "why"),)), ["--json"], 1, "nothing can be measured"),
        (replace(GPU, disk_free_bytes=1 << 20), [], 0, "problem"),
    ],
)
def test_the_exit_code_is_1_where_nothing_can_be_measured(planted, invoke, survey, arguments, code, words):
    planted(survey)
    assert words in invoke("doctor", *arguments, code=code).out


PAGE = """
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from rooflens.cli.doctor import section
from rooflens.cli.shared.tables import show
from rooflens.harness.machine.advice import advice
from rooflens.harness.machine.survey import survey, ProviderOffer as Offer
found = survey("cpu", lambda device: [Offer("simt_4bit", False, "needs a GPU " * 12), Offer("blas", True)])
show(section(found, advice(found)))
"""


@pytest.mark.parametrize("columns", [80, pytest.param(120, marks=pytest.mark.slow)])
def test_page_fits_its_terminal_and_respects_no_color(columns):
    shown = on_terminal("-c", PAGE, columns=columns)
    assert "\x1b[1m" in shown
    plain = on_terminal("-c", PAGE, columns=columns, NO_COLOR="1")
    assert "\x1b" not in plain
    lines = plain.splitlines()
    assert max(map(len, lines)) <= columns
    assert [line.strip() for line in lines if line.strip() in SECTIONS] == SECTIONS
