"""The data sets of walkback: every file registers one, or two that are alike, and imports nothing heavy."""
