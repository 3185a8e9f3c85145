"""What accuracy costs in time, measured on the user's own texts and machine."""
