"""The shipped algorithms, one folder each."""
