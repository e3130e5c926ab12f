"""CAGE Challenge 2: defend a small network against an attacker who knows the way, or looks for one.

::

    quirks    what the official simulator does that its authors hardly meant
    network   hosts, services, exploits, decoys
    state     what a game remembers
    blue      what Blue can do          actions   the sets of actions to choose from
    red       what Red can do           attackers  what Red does next
    sight     what Blue sees
    rules     a step of the game
    world     all of it as a world      true_state, pictures    for who looks at it
"""

from shoal.envs.cage2.quirks import Quirks
from shoal.envs.cage2.world import Cage2, Cage2Env

__all__ = ["Cage2", "Cage2Env", "Quirks"]
