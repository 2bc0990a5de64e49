"""One script per claim; ``make bench`` runs them and writes ``benchmarks/README.md``."""
