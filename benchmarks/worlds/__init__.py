"""How fast are compiled worlds?"""
