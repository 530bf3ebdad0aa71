"""How the time of an audit grows with its text: texts that are long in one way each, doubled up to 1 MB.

    python benchmarks/audit_scaling.py [--most BYTES] [--only WORDS]

Prints µs of processor time per character. A number that grows from left to right is a cost that is not linear.
"""

import contextlib
import time
from collections.abc import Callable

from options import options
from rooflens.analysis.imports.devices import find_device
from rooflens.analysis.imports.text import tables_in
from rooflens.plugins.audit.audit import audit
from rooflens.plugins.audit.evidence.assumptions import Assumptions
from rooflens.shapes.errors import RooflensError

SIZED = "| M | N | K | ms | TFLOPS |\n|---|---|---|---|---|\n"


def repeated(unit: str, before: str = "", after: str = "") -> Callable[[int], str]:
    """Return what makes a text of about so many characters from copies of `unit`."""
    return lambda length: before + unit * max(1, length // len(unit)) + after


def numbered(unit: str, before: str = "") -> Callable[[int], str]:
    """Do so with the number of each copy in place of `{}`."""
    return lambda length: before + "".join(unit.replace("{}", str(at)) for at in range(length // (len(unit) + 2)))


def wide(columns: int) -> str:
    """Return a small table with so many columns."""
    return "|" + " ms |" * columns + "\n|" + "---|" * columns + "\n" + ("|" + " 1 |" * columns + "\n") * 2 + "\n"


def unrelated(columns: int) -> Callable[[int], str]:
    """Return what makes a table with so many columns of times, and of ratios that do not follow from them."""
    names = [name for at in range(columns) for name in (f"v{at} ms", f"speedup {at}")]
    head = f"| a | {' | '.join(names)} |\n{'|---' * (len(names) + 1)}|\n"

    def rows(length: int) -> str:
        rows = (
            [f"x{at}", *(f"{1 + (at * 7919 + one * 104729) % 997 / 499:.2f}" for one in range(len(names)))]
            for at in range(length // (7 * len(names) + 10))
        )
        return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)

    return rows


HOSTILE: dict[str, Callable[[int], str]] = {
    "digits": repeated("1", after=" TFLOPS"),
    "digits of another script": repeated("١"),
    "fullwidth digits": repeated("１", after=" TFLOPS"),
    "an exponent": repeated("1", "1e", " TFLOPS"),
    "commas": repeated("1,"),
    "thousands": repeated(",000", "1", " TFLOPS"),
    "versions": repeated("1."),
    "blanks": lambda length: ("mean" + " " * 500) * (length // 504),
    "indented lines": repeated(" " * 100 + "1\n"),
    "stars": repeated("*"),
    "open links": repeated("[a]("),
    "open parentheses": repeated("("),
    "one long word": repeated("a"),
    "one line of words": repeated("word "),
    "rules of dashes": repeated("---\n"),
    "rules of markdown": repeated("|---|\n"),
    "bars": repeated("|\n"),
    "rows without a rule": repeated("| 1 | 2 |\n"),
    "lines with CR": repeated("1 2\r"),
    "tabs": repeated("a\t1\t2\n"),
    "commas of prose": repeated("one, two, three, four\nand 1, 2, 3\n"),
    "CSV": repeated("4096,4096,4096,1.5\n", "M,N,K,ms\n"),
    "tables": repeated(f"## T\n\n{SIZED}| 1 | 2 | 3 | 4 | 5 |\n| 2 | 2 | 3 | 4 | 5 |\n\n"),
    "tables of Windows": repeated("| M | ms |\r\n|---|---|\r\n| 1 | 4 |\r\n| 2 | 4 |\r\n\r\n"),
    "aligned tables": repeated("proj  M     N     TFLOPS\ndown  4096  4096  300\nup    4096  4096  200\n\n"),
    "rows": numbered("| {} | 4096 | 4096 | 1.{} | 3{} |\n", SIZED),
    "wide tables": repeated(wide(95)),
    "a wide row above thin ones": repeated("|1|\n", "|" * 95 + "\n|---|---|\n"),
    "a long cell": repeated("x", "| a | ms |\n|---|---|\n| ", " | 1 |\n| y | 2 |\n"),
    "a long number": repeated("1", "| a | ms |\n|---|---|\n| x | ", " |\n| y | 2 |\n"),
    "ratios that do not follow": unrelated(6),
    "baselines": repeated("| a | 1.5 | 1.00x |\n| b | 1.5 | 1.20x |\n", "| name | ms | speedup |\n|---|---|---|\n"),
    "rows that sum up": repeated("| mean | 1.5 |\n| a | 2 |\n", "| name | ms |\n|---|---|\n"),
}
"""Name: text of about so many characters."""


def cpu_seconds(text: str) -> float:
    """Processor time of one audit of a text; one that is refused counts as well."""
    setting = Assumptions(find_device("MI300X"))
    start = time.process_time()
    with contextlib.suppress(RooflensError):
        audit(tables_in(text.encode(), "text"), setting)
    return time.process_time() - start


def main() -> None:
    """Print a line per kind of text, a column per length."""
    chosen = options(__doc__, most=1_000_000, only="")
    lengths = [length for at in range(6, -1, -1) if (length := chosen.most >> at) >= 1000]
    print(f"{'µs of processor time per character':36}" + "".join(f"{length:>9}" for length in lengths))
    cpu_seconds(SIZED + "| 1 | 2 | 3 | 4 | 5 |\n")
    for name, make in HOSTILE.items():
        if chosen.only in name:
            texts = (make(length) for length in lengths)
            print(f"{name:36}" + "".join(f"{1e6 * cpu_seconds(text) / len(text):9.2f}" for text in texts), flush=True)


if __name__ == "__main__":
    main()
