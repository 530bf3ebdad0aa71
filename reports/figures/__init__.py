"""Figures as data, and how charts are drawn.

chart        a figure
axes         limits and ticks
frames       sizes of a drawing
labels       where texts go
marks        markers and dashes
colours      colours, light and dark
svg          charts as SVG
"""
