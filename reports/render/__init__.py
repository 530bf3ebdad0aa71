"""One module per output format of a report.

html             the page
html_style       its style and script
html_table       its tables
html_budget      what it leaves out when it grows too large
markdown         GitHub markdown
markdown_blocks  one block of it
markdown_parts   several bodies
text             plain text
layout           text tables
plain            ASCII signs
json_form        JSON
visible          writes out characters that nobody sees
"""
