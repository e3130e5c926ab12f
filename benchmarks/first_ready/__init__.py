"""What does waiting for the slowest cost, and who does not pay it?"""
