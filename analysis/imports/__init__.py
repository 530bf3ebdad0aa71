"""Tables of times that other tools wrote, brought into the form of a comparison.

`read.read` recognises the format by its header, `comparison.versions.pair` joins two files to the `Versions` that
`comparison.effects` compares. One module per source: `primus`, `aiter_tuned`, `aiter_moe`, `aiconfigurator`,
`perf_report`, `tritonbench`, `nvbench`, `tidy` (anything else, with a map of its columns). Below them `table` (fields
with their lines), `parquet_table`, `rounding` (the step that a column was rounded to), `units` (what a column name
states) and `entries` (one row per case); `consistency` says which printed numbers cannot follow from others.
"""
