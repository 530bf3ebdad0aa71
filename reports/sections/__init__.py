"""The chapters of reports: each a function that returns a Section or None."""
