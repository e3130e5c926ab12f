"""How long until the first observation, and in how much memory?"""
