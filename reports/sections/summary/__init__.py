"""What a reader takes away.

headline           the numbers of a question, and what concerns the run
takeaways          in sentences
accuracy           how exact outputs are, what was checked, and passed
open_items         where a challenger loses or cannot run, and what a run leaves open
legend             where the shapes come from
"""
