"""What `rooflens compare --git` says on this CPU of identical code, and of a kernel with 5 % more work.

    python benchmarks/compare_on_cpu.py [--times 10] [--rounds 8]

The kernel is torch's GEMM on dequantized weights. The slower one multiplies the first 5 % of K again, so that it really
does more; nothing is scaled.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from options import options

SUITE = """
name = "compared"
shapes = "shapes.csv"
schemes = ["nf4-g64"]
dtypes = ["fp32"]
caches = ["warm"]
providers = ["dequant_blas"]
baseline = "dequant_blas"
challengers = ["dequant_blas"]
[axes]
M = [16, 64, 256]
[protocol]
budget_s = 0.3
"""

SHAPES = "model,layer,N,K\nplanted,q,1024,2000\nplanted,v,512,1000\n"

KERNEL = """
import torch
from rooflens.kernels.provider import Launch, Provider

MORE = {more}

class Mine(Provider):
    name = "mine"

    def prepare(self, inputs, config=None):
        weight = inputs.dequantized().t().contiguous()
        out, again = inputs.empty_output(), inputs.empty_output()
        part = round(MORE * inputs.problem.K)

        def run():
            torch.mm(inputs.x, weight, out=out)
            if part:
                torch.mm(inputs.x[:, :part], weight[:part], out=again)

        return Launch(run, out)

PROVIDERS = [Mine()]
"""


def repository(folder: Path, shares: tuple[float, float]) -> Path:
    folder.mkdir()
    identity = {f"GIT_{who}_{what}": "benchmark" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, env=os.environ | identity)

    git("init", "--quiet")
    for more in shares:
        (folder / "kernels.py").write_text(KERNEL.format(more=more))
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message", f"{more:.0%} more work")
    return folder


def compare(place: Path, repo: Path, name: str, rounds: int) -> list[dict]:
    command = [
        *(sys.executable, "-m", "rooflens.cli", "compare", "--git", "HEAD~1..HEAD", "--repo", str(repo)),
        *("--providers", "kernels.py", "suite.toml", "--device", "cpu", "--rounds", str(rounds), "-o", name, "--json"),
        *("--set", "threads=1"),  # the other core is for everybody else
    ]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    return json.loads(done.stdout)["cases"]


def told(cases: list[dict]) -> str:
    words = [case["word"] for case in cases]
    counted = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    effects = " ".join(f"{case['effect']:+.2%}" for case in cases)
    return f"{counted}; effects {effects}"


def main() -> None:
    asked = options(__doc__, times=10, rounds=8)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "suite.toml").write_text(SUITE)
        (place / "shapes.csv").write_text(SHAPES)
        same, more = repository(place / "same", (0.0, 0.0)), repository(place / "more", (0.0, 0.05))
        print(f"5 % more work: {told(compare(place, more, 'more', asked.rounds))}", flush=True)
        wrong = 0
        for number in range(asked.times):
            cases = compare(place, same, f"same-{number}", asked.rounds)
            wrong += any(case["word"] in ("faster", "slower") for case in cases)
            print(f"identical code, comparison {number}: {told(cases)}", flush=True)
        print(f"{wrong} of {asked.times} comparisons of identical code hold a faster or slower verdict")


if __name__ == "__main__":
    main()
