"""The sections of the reproduction page, a file for each group of them; `walkback.studies.reproduction` joins them."""
