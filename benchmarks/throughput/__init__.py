"""How fast is Shoal beside its peers, on one machine? See README.md in this folder."""
