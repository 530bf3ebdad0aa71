"""Provider files that tests write."""

import sys
from contextlib import contextmanager


def planted(folder, files):
    """Write {name: text}; return the folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@contextmanager
def forgotten():
    """Forget the modules and search paths that planted files add."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("rooflens_user_", "helper_of_")) or "_of_test" in name:
            del sys.modules[name]
