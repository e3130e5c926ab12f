"""Words that say nothing about a product."""

from __future__ import annotations

_WORDS = """
a about all also am an and any are as at be been both but by can could did do does for from get had has have he her him his
how i if in into is it its just like looking me more most my need no nor not of off on one only or other our out over own
please price priced lower less than that the their them then there these they this those to too under up us very want was we
were what when which while who will with would you your dollar dollars
"""
STOP_WORDS = frozenset(_WORDS.split())
