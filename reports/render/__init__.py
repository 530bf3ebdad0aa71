"""One module per output format of a report.

formats          the registry of formats
html             the page
html_style       its style and script
html_table       its tables
html_budget      what it drops when it grows too large
figure_file      a figure as an SVG file
markdown         GitHub markdown
markdown_blocks  one block of it
markdown_parts   several bodies
comment          GitHub markdown of one file, without images, for a comment or the summary of a job
text             plain text
digest           the lines for a commit message
terminal         what a command found
layout           text tables
plain            ASCII signs
json_form        JSON
visible          writes out characters that nobody sees
"""
