"""The contestants: one module per library, loaded only by the hosts of its rigs."""
