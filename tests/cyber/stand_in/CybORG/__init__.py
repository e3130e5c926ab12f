"""Stands in for CybORG: its interface and its habits, but not its game. Found where tests put it on the path."""

from CybORG.CybORG import CybORG

__all__ = ["CybORG"]
