"""What a reader sees: tables, figures, HTML and markdown. No torch.

model       what a report says, as plain values
build       from what was measured to a report
presets     which chapters make which report
view        the analysed run as chapters look at it
listing     tables of what commands list
cells       results as table cells
terms       words that pages and terminals share
trend_terms how runs and changes of a history are named
formatting  how numbers are written
write       writes the files
"""
