"""Suite files for tests: one provider's time beside a baseline's, of small sizes."""

import json


def suite_text(name: str, providers: list[str], M: list[int], protocol: dict[str, float] | None = None, **more) -> str:
    """TOML of a suite over NAME.csv: its first provider is the baseline, its last one the challenger.

    `more`: what else it says, or says in place of fp32 operands in the cache.
    """
    usual = {"name": name, "shapes": f"{name}.csv", "schemes": ["nf4-g64"], "dtypes": ["fp32"], "caches": ["warm"]}
    roles = {"providers": providers, "baseline": providers[0], "challengers": providers[-1:]}
    parts = (("", usual | roles | more), ("[axes]\n", {"M": M}), ("[protocol]\n", protocol or {}))
    return "".join(
        title + "".join(f"{key} = {json.dumps(value)}\n" for key, value in content.items()) for title, content in parts
    )
