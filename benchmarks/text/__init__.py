"""How fast are text worlds?"""
