"""The data sets that walkback knows by name: one file each, which registers itself and imports nothing heavy."""
