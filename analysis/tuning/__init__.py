"""What searches found.

searches  gains over the default, how far searches agree, what disturbed them or failed
"""
