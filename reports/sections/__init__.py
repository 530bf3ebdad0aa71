"""The chapters of a report, one module each: a function from the analysed run to a Section."""
