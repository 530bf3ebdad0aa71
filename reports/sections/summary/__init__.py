"""What a reader takes away.

headline           how the leading challenger stands, and what concerns the run
cards              the numbers of other questions
takeaways          in sentences
correctness        what was checked, how exact it is, and what failed
known_limitations  where a challenger loses or cannot run
open_items         what a run leaves open
legend             where the shapes come from
"""
