"""How much training, encoding and searching cost at sizes not run here."""
