"""What a reader sees: tables, figures, HTML and markdown. No torch."""
