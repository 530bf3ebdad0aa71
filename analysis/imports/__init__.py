"""One reader of tables that other tools wrote, for comparisons, reports and plugins.

`text.tables_in` finds the tables of a file (CSV, markdown, aligned text, parquet; the JSON of benchmarks by
`json_results`): header and texts with their lines (`table`). `recognition.read_column` says what a column is, by its
header and the one table of names in `words`, and by its cells (`printed`), which decide; `devices` which device a text
names. `read.read` recognises a format by its header and brings each row to a case (`entries`) with its coordinates and
its time, and counts what it skipped; `comparison.versions.pair` joins two of them. One module per source: `primus`,
`aiter_tuned`, `aiter_moe`, `aiconfigurator`, `perf_report`, `tritonbench`, `nvbench`, `tidy` (anything else, with a
map of its columns). Below them `rounding` (the step that a column was rounded to) and `consistency` (which numbers can
follow from rounded ones).
"""
