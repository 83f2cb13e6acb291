"""The data sets of walkback: one file each, which registers itself and imports nothing heavy."""
