"""Figures as data, drawn twice.

chart        a figure
axes         limits and ticks
frames       sizes of a drawing
labels       where texts go
marks        markers and dashes
colours      colours, light and dark
svg          inline SVG
png          PNG with matplotlib
figure_data  the numbers, as links
"""
