"""Options of a planted run that was watched: telemetry, a canary that moves, a discarded sample, a disturbed cell."""

from typing import Any

WATCHED: dict[str, Any] = {
    "manifest": {"telemetry": "nvml"},
    "canary": [
        {"at": f"2026-01-02T03:{minute:02d}:30Z", "process": 0, "gemm_s": gemm, "copy_s": 2e-3}
        for minute, gemm in enumerate((1.0e-3, 1.0e-3, 1.041e-3))
    ],
    "telemetry": lambda cell, round_: [
        {"clock_hz": 1.98e9, "memory_clock_hz": 3.2e9, "temperature_c": 41.0, "power_w": 310.0, "other_processes": 0},
        {"clock_hz": 1.755e9, "temperature_c": 63.0, "power_w": 698.0, "slowdown": "power_cap" if cell.M > 1 else ""},
    ],
    "discards": lambda cell, round_, index: (
        "negative time" if (cell.provider, cell.M, round_, index) == ("simt_4bit", 1, 0, 1) else ""
    ),
    "columns": lambda cell, round_: (
        {"disturbed": "2 other processes on the device"} if cell.provider == "blas" and cell.M == 1 else {}
    ),
}
"""Rounds begin at 3:00:05, 3:01:05 and 3:02:05, so the canary moves by 4.1 % around the last one: every cell of a run
of three rounds is disturbed, and of one of two rounds only what says so itself."""
