"""Vector environments: found by id, checked, and made to behave alike."""
