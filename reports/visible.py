"""Characters that a reader cannot see, but that change what he sees: written out, in every format.

A provider may be called what it likes. A right-to-left override in a name turns the rest of its line around, a control
character ends what a parser takes for the text, and half of a surrogate pair has no bytes at all.
"""

_CONTROLS = {code for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
_TURNS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
"""Marks, embeddings, overrides and isolates of the bidirectional algorithm (Unicode Standard Annex 9)."""
_BREAKS = {0x2028, 0x2029, 0xFEFF}
_HALVES = range(0xD800, 0xE000)

_WRITTEN = {code: f"[U+{code:04X}]" for code in (*_CONTROLS, *_TURNS, *_BREAKS, *_HALVES)}


def visible(text: str) -> str:
    """Return `text` with such characters as [U+202E]; blanks, line ends and joiners of emoji stay."""
    return text.translate(_WRITTEN)
