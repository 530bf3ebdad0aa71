"""From a text to tables whose columns are understood.

document         finds the tables of a text
box_table        markdown, ASCII and CSV tables
html_table       HTML tables
aligned          tables whose columns are aligned by blanks
words            the vocabulary of headers
printed          a printed number: digits, unit
column           what a column is, by its header and cells
roles            what the table around them says of its columns
several          cells with several quantities
serving_tables   files of AIConfigurator
turned           tables that lie on their side
annotated_table  a table with roles
assumptions      device, dtype and operation that it is held against
claims           what is said in words, in a cell or with --claim
"""
