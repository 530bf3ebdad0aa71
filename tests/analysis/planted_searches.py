"""Rows of tuning.csv: searches whose times and winners are planted."""


def candidate(config, search=0, cell="c0", **columns):
    """One row of a search of as many candidates as `candidates` says."""
    usual = {
        "cell_id": cell, "search": search, "candidate": 0, "arch": "sm90", "compute_units": 132, "op": "gemm",
        "pass": "fwd", "B": 1, "E": 1, "top_k": 1, "M": 1, "N": 4096, "K": 4096, "dtype": "bf16",
        "scheme": "nf4-g64", "provider": "tri", "cache": "cold", "config": config, "verdict": "passed",
        "winner": False, "near_tie": False, "candidates": 1, "search_s": 2.0, "source": "s",
    }  # fmt: skip
    return usual | columns


def searched(number, times, winner, near=(), cell="c0", **columns):
    """Rows of one search; `times` maps the name of a configuration, the default first, to seconds (None: failed)."""
    return [
        candidate({"tile": name}, number, cell, candidate=at, candidates=len(times), time_s=time_s)
        | {"winner": name == winner, "near_tie": name in near}
        | {"verdict": "passed" if time_s else "runtime_error"}
        | columns
        for at, (name, time_s) in enumerate(times.items())
    ]
