"""Everything a person or a program sees is formatted here, and nowhere else.

``text`` makes foreign text safe and measures it, ``units`` writes times, durations and money, ``out`` knows the
terminal and writes lines and JSON, ``table`` aligns; the other modules draw one thing each.  Only ``progress``
uses rich, and only on a terminal: listings stay quick.
"""
