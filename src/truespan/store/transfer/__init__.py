"""Transfer: copying one store into another, and the snapshot in a backup."""
