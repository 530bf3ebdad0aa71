"""What a reader takes away.

headline           the numbers of a question, and what concerns the run
cards              such numbers: rates, means, a threshold
takeaways          in sentences
tally              what was checked, and passed
accuracy           how exact outputs are
known_limitations  where a challenger loses or cannot run
open_items         what a run leaves open
legend             where the shapes come from
"""
