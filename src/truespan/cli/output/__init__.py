"""Output of the command line: results, reports and conversations as text."""
