"""`rooflens doctor`: the page of a real machine without a GPU, of planted ones, its JSON and its exit code."""

import json
import os
import re
from dataclasses import replace
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


@pytest.fixture(scope="module")
def real():
    """The JSON of this machine's CPU, from a process of its own as a user starts it."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = fresh(Path.cwd(), "doctor", "--device", "cpu", "--json", env=environment)
    return json.loads(done.stdout)


def test_json_of_this_machine_is_complete(real):
    found = real["survey"]
    assert set(found) == set(surveys.Survey.__dataclass_fields__)
    assert found["device"]["kind"] == "cpu"
    assert found["host"]["usable_cores"] == len(os.sched_getaffinity(0))
    assert found["telemetry"] == {"name": "host", "available": True, "reason": ""}
    assert 0 <= found["reading"]["busy_elsewhere"] <= 1
    assert found["caches"]["llc_bytes"] == found["device"]["llc_bytes"]
    assert {one["name"]: one["available"] for one in found["timers"]}["host"] is True
    assert found["disk_free_bytes"] == pytest.approx(_free_here(), rel=0.2)
    assert {one["level"] for one in real["advice"]} <= {"ok", "warn", "problem"}


def _free_here() -> int:
    stats = os.statvfs(".")
    return stats.f_bavail * stats.f_frsize


def test_providers_of_this_machine_are_asked_about_the_device_that_was_named(real):
    providers = {one["name"]: one for one in real["survey"]["providers"]}
    assert providers["dequant_blas"]["available"]
    assert not providers["simt_4bit"]["available"]
    assert "GPU" in providers["simt_4bit"]["reason"]


def test_versions_are_those_that_are_imported(real):
    import torch
    import triton

    software = real["survey"]["software"]
    assert (software["torch"], software["triton"]) == (torch.__version__, triton.__version__)
    assert [one["name"] for one in software["triton_owners"]] == ["triton"]


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


@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--json"]])
def test_exit_code_is_1_when_nothing_can_be_measured(planted, invoke, arguments):
    planted(replace(HOST, providers=(ProviderOffer("blas", False, "why"),)))
    assert "nothing can be measured" in invoke(*arguments, code=1).out


def test_warnings_alone_leave_the_exit_code_at_0(planted, invoke):
    planted(replace(GPU, disk_free_bytes=1 << 20))
    assert "problem" in invoke("doctor").out


def test_a_device_that_is_not_there_is_one_line(invoke):
    assert invoke("doctor", "--device", "tpu", code=2).err.startswith("rooflens: error: --device 'tpu'")


PAGE = """
from dataclasses import replace
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
