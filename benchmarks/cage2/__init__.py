"""What does the game of CAGE 2 cost, in Python and compiled, and where does the time go?"""
