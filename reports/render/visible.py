"""Characters that a reader cannot see, but that change what he sees, or tell two names apart: written out everywhere.

A provider may be called what it likes. A right-to-left override in a name turns the rest of its line around, a control
character ends what a parser takes for the text, and half of a surrogate pair has no bytes at all.
"""

_CONTROLS = {code for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
_TURNS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
"""Marks, embeddings, overrides and isolates of the bidirectional algorithm (Unicode Standard Annex 9)."""
_BREAKS = {0x2028, 0x2029, 0xFEFF}
_NOTHING = {0x00AD, 0x180E, 0x200B, *range(0x2060, 0x2065), *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080)}
"""Hyphens and blanks of no width, marks of annotations, and tags: two names that differ in them look the same."""
_HALVES = range(0xD800, 0xE000)

_WRITTEN = {code: f"[U+{code:04X}]" for code in (*_CONTROLS, *_TURNS, *_BREAKS, *_NOTHING, *_HALVES)}


def visible(text: str) -> str:
    """Return `text` with such characters as [U+202E]; blanks, line ends and joiners of emoji stay."""
    return text.translate(_WRITTEN)
