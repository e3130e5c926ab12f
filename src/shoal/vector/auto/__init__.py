"""Where environments run when that is left to us: measure, predict, choose, explain, and move without a stall."""
