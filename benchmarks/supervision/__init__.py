"""What does it cost to be able to bring environments back, and how long does it take?"""
