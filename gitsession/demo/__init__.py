"""What ``pinable-agents demo`` works on: a small Go repository (``shop``) and a scripted agent (``agent.py``)."""
