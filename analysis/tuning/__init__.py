"""What searches found.

searches  gains over the default, and how far searches agree
notes     what disturbed or failed
"""
