"""The report: tables and pages drawn from records alone. Nothing is measured or judged here."""
