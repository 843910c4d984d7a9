"""The settings files in which agents are told of our hooks: what goes into them, and how it gets in and out."""
