"""Options of the benchmarks: one way to declare them, with the docstring of the program as its help."""

import argparse


def options(doc: str | None, **defaults: str | float) -> argparse.Namespace:
    """Parse `--name VALUE` for each default, of the type of the default; a default of False makes a flag."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        if default is False:
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default, help=f"default: {default}")
    return parser.parse_args()
