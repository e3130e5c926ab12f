"""What every way of training shares: the loop around it, what is kept of it, and its command."""
