"""What a reader takes away.

headline           three numbers
takeaways          in sentences
tally              what was checked, and passed
accuracy           how exact outputs are
known_limitations  where a challenger loses or cannot run
open_items         what a run leaves open
legend             where the shapes come from
"""
